package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"time"

	"github.com/quic-go/quic-go"
)

// window holds any object that is downloaded: flow control never limits.
const window = 1 << 30

// times of a download, in milliseconds since its first packet.
type times struct {
	FirstByte float64 `json:"ttfb_ms"`
	LastByte  float64 `json:"ttlb_ms"`
}

// body hashes what arrives and notes when its first byte does.
type body struct {
	hash.Hash
	start     time.Time
	firstByte time.Duration
}

func (b *body) Write(data []byte) (int, error) {
	if b.firstByte == 0 {
		b.firstByte = time.Since(b.start)
	}
	return b.Hash.Write(data)
}

// download fetches an object on a connection of its own. The harness bounds its time.
func (t *target) download(path string) (string, *times, error) {
	b := &body{Hash: sha256.New(), start: time.Now()}
	c, err := t.connectWith(&quic.Config{
		InitialStreamReceiveWindow:     window,
		MaxStreamReceiveWindow:         window,
		InitialConnectionReceiveWindow: window,
		MaxConnectionReceiveWindow:     window,
	}, nil, (*quic.Transport).Dial)
	if err != nil {
		return "", nil, err
	}
	defer c.close()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, c.url+path, nil)
	if err != nil {
		return "", nil, err
	}
	response, err := c.requests.RoundTrip(request)
	if err != nil {
		return "", nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("status %d", response.StatusCode)
	}
	size, err := io.Copy(b, response.Body)
	lastByte := time.Since(b.start)
	if err != nil {
		return "", nil, fmt.Errorf("%w after %d bytes", err, size)
	}
	if found := hex.EncodeToString(b.Sum(nil)); found != t.objects[path] {
		return "", nil, fmt.Errorf("%d bytes with another hash, %s", size, found)
	}
	return fmt.Sprintf("%d bytes", size), &times{milliseconds(b.firstByte), milliseconds(lastByte)}, nil
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}
