package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	small       = "/small.txt"
	large       = "/large.bin"
	many        = "/many/"
	uploadBytes = 5_000_000

	// More than one, because a worker that cannot open another's tickets is met by chance.
	resumedConnections = 5
)

// run tries a case on a connection of its own, and says what was seen.
func (t *target) run(name string) (string, error) {
	cases := map[string]func(*client) (string, error){
		"small":       func(c *client) (string, error) { return object(c, small) },
		"large":       func(c *client) (string, error) { return object(c, large) },
		"head":        head,
		"range":       ranges,
		"conditional": conditional,
		"missing":     missing,
		"parallel":    parallel,
		"upload":      upload,
		"key-update":  keyUpdate,
		"migration":   migration,
		"resumption":  resumption,
		"early-data":  earlyData,
	}
	try, ok := cases[name]
	if !ok {
		return "", errors.New("no such case")
	}
	c, err := t.connect(nil, (*quic.Transport).Dial)
	if err != nil {
		return "", err
	}
	defer c.close()
	return try(c)
}

func object(c *client, path string) (string, error) {
	a, err := c.get(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d bytes", len(a.body)), nil
}

func head(c *client) (string, error) {
	a, err := c.send(http.MethodHead, large, nil)
	if err != nil {
		return "", err
	}
	length := a.fields.Get("Content-Length")
	if a.status != http.StatusOK || length != "20000000" || len(a.body) > 0 {
		return "", fmt.Errorf("status %d, content-length %s, body %d", a.status, length, len(a.body))
	}
	return "content-length: " + length, nil
}

func ranges(c *client) (string, error) {
	all, err := c.get(small)
	if err != nil {
		return "", err
	}
	one, err := c.send(http.MethodGet, small, nil, field{"Range", "bytes=100-199"})
	if err != nil {
		return "", err
	}
	place := one.fields.Get("Content-Range")
	if one.status != http.StatusPartialContent || place != "bytes 100-199/1000" ||
		!bytes.Equal(one.body, all.body[100:200]) {
		return "", fmt.Errorf("one range: status %d, %s", one.status, place)
	}
	two, err := c.send(http.MethodGet, small, nil, field{"Range", "bytes=0-9,500-509"})
	if err != nil {
		return "", err
	}
	if err := parts(two, all.body); err != nil {
		return "", fmt.Errorf("two ranges: %w", err)
	}
	none, err := c.send(http.MethodGet, small, nil, field{"Range", "bytes=1000-"})
	if err != nil {
		return "", err
	}
	place = none.fields.Get("Content-Range")
	if none.status != http.StatusRequestedRangeNotSatisfiable || place != "bytes */1000" {
		return "", fmt.Errorf("beyond the end: status %d, %s", none.status, place)
	}
	return "206, 206 with 2 parts, 416", nil
}

// parts checks the answer to the request of two ranges.
func parts(a *answer, all []byte) error {
	kind, settings, err := mime.ParseMediaType(a.fields.Get("Content-Type"))
	if err != nil || a.status != http.StatusPartialContent || kind != "multipart/byteranges" {
		return fmt.Errorf("status %d, content-type %s", a.status, kind)
	}
	reader := multipart.NewReader(bytes.NewReader(a.body), settings["boundary"])
	for _, first := range []int{0, 500} {
		part, err := reader.NextPart()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		place := part.Header.Get("Content-Range")
		if place != fmt.Sprintf("bytes %d-%d/1000", first, first+9) ||
			!bytes.Equal(data, all[first:first+10]) {
			return fmt.Errorf("part of %d bytes, %s", len(data), place)
		}
	}
	if _, err := reader.NextPart(); err != io.EOF {
		return errors.New("more than two parts")
	}
	return nil
}

func conditional(c *client) (string, error) {
	all, err := c.get(small)
	if err != nil {
		return "", err
	}
	tag, date := all.fields.Get("Etag"), all.fields.Get("Last-Modified")
	for _, condition := range []field{{"If-None-Match", tag}, {"If-Modified-Since", date}} {
		a, err := c.send(http.MethodGet, small, nil, condition)
		if err != nil {
			return "", err
		}
		if a.status != http.StatusNotModified || len(a.body) > 0 || a.fields.Get("Etag") != tag {
			return "", fmt.Errorf("%s: status %d, body %d", condition.name, a.status, len(a.body))
		}
	}
	if _, err := c.get(small, field{"If-None-Match", `"another"`}); err != nil {
		return "", err
	}
	return "304, 304, 200", nil
}

func missing(c *client) (string, error) {
	a, err := c.send(http.MethodGet, "/missing", nil)
	if err == nil && a.status != http.StatusNotFound {
		err = fmt.Errorf("status %d", a.status)
	}
	return "404", err
}

func parallel(c *client) (string, error) {
	var asked sync.WaitGroup
	failures := make(chan error, len(c.objects))
	count := 0
	for path := range c.objects {
		if strings.HasPrefix(path, many) {
			count++
			asked.Go(func() {
				_, err := c.get(path)
				failures <- err
			})
		}
	}
	asked.Wait()
	close(failures)
	var all error
	for err := range failures {
		all = errors.Join(all, err)
	}
	if count != 100 {
		return "", fmt.Errorf("%d objects", count)
	}
	return fmt.Sprintf("%d streams", count), all
}

func upload(c *client) (string, error) {
	a, err := c.send(http.MethodPost, "/upload", make([]byte, uploadBytes))
	if err != nil {
		return "", err
	}
	counted := strings.TrimSpace(string(a.body))
	if a.status != http.StatusOK || counted != fmt.Sprint(uploadBytes) {
		return "", fmt.Errorf("status %d, counted %s", a.status, counted)
	}
	return counted + " bytes", nil
}

// keyUpdate relies on quic-go's habit of updating the keys after 100 packets.
func keyUpdate(c *client) (string, error) {
	if _, err := c.get(large); err != nil {
		return "", err
	}
	count := c.keyUpdates.count.Load()
	if count == 0 {
		return "", errors.New("no key update")
	}
	return fmt.Sprintf("%d by the client", count), nil
}

func migration(c *client) (string, error) {
	next, err := newSocket()
	if err != nil {
		return "", err
	}
	defer next.Close()
	move := func() error {
		path, err := c.conn.AddPath(next)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := path.Probe(ctx); err != nil {
			return err
		}
		return path.Switch()
	}
	a, err := c.sendMidway(http.MethodGet, large, nil, move)
	if err != nil {
		return "", err
	}
	if c.conn.LocalAddr().String() != next.Conn.LocalAddr().String() {
		return "", fmt.Errorf("the address is still %s", c.conn.LocalAddr())
	}
	return "after a probe of the new path", c.whole(large, a)
}

func resumption(c *client) (string, error) {
	sessions := tls.NewLRUClientSessionCache(1)
	for number := range resumedConnections + 1 {
		next, err := c.connect(sessions, (*quic.Transport).Dial)
		if err != nil {
			return "", err
		}
		_, err = next.get(small)
		resumed := next.conn.ConnectionState().TLS.DidResume
		next.close()
		if err != nil {
			return "", err
		}
		if resumed != (number > 0) {
			return "", fmt.Errorf("connection %d: resumed is %t", number, resumed)
		}
	}
	return fmt.Sprintf("%d connections", resumedConnections), nil
}

func earlyData(c *client) (string, error) {
	sessions := tls.NewLRUClientSessionCache(1)
	first, err := c.connect(sessions, (*quic.Transport).Dial)
	if err != nil {
		return "", err
	}
	_, err = first.get(small)
	first.close()
	if err != nil {
		return "", err
	}
	second, err := c.connect(sessions, (*quic.Transport).DialEarly)
	if err != nil {
		return "", err
	}
	defer second.close()
	a, err := second.send(http3.MethodGet0RTT, small, nil)
	if err == nil {
		err = c.whole(small, a)
	}
	if err == nil && !second.conn.ConnectionState().Used0RTT {
		err = errors.New("early data was not accepted")
	}
	return "accepted", err
}
