package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// timeout is what a case may take, the slowest of them on a busy machine.
const timeout = 60 * time.Second

// client makes all of its requests on one connection.
type client struct {
	*target
	conn       *quic.Conn
	requests   *http3.ClientConn
	socket     *quic.Transport
	keyUpdates *updates
}

// updates counts the key updates that the client itself began.
type updates struct{ count atomic.Int64 }

func (u *updates) AddProducer() qlogwriter.Recorder { return u }
func (u *updates) SupportsSchemas(string) bool      { return true }
func (u *updates) Close() error                     { return nil }
func (u *updates) RecordEvent(event qlogwriter.Event) {
	update, ok := event.(qlog.KeyUpdated)
	if ok && update.Trigger == qlog.KeyUpdateLocal && update.KeyType == qlog.KeyTypeClient1RTT {
		u.count.Add(1)
	}
}

// dial is how a connection begins: Transport.Dial, or DialEarly.
type dial func(
	*quic.Transport, context.Context, net.Addr, *tls.Config, *quic.Config,
) (*quic.Conn, error)

// connect dials with sessions as the cache of TLS sessions.
func (t *target) connect(sessions tls.ClientSessionCache, dial dial) (*client, error) {
	return t.connectWith(&quic.Config{}, sessions, dial)
}

// connectWith is connect with other settings than quic-go's own.
func (t *target) connectWith(
	settings *quic.Config, sessions tls.ClientSessionCache, dial dial,
) (*client, error) {
	socket, err := newSocket()
	if err != nil {
		return nil, err
	}
	counted := &updates{}
	settings.Tracer = func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return counted }
	secrets := &tls.Config{
		RootCAs:            t.roots,
		ServerName:         "127.0.0.1",
		NextProtos:         []string{http3.NextProtoH3},
		ClientSessionCache: sessions,
	}
	address, err := net.ResolveUDPAddr("udp", t.url[len("https://"):])
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := dial(socket, ctx, address, secrets, settings)
	if err != nil {
		return nil, err
	}
	transport := &http3.Transport{DisableCompression: true}
	return &client{t, conn, transport.NewClientConn(conn), socket, counted}, nil
}

func newSocket() (*quic.Transport, error) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	return &quic.Transport{Conn: socket}, err
}

func (c *client) close() {
	c.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	c.socket.Close()
}

// answer is what a request is answered with.
type answer struct {
	status int
	fields http.Header
	body   []byte
}

// field is a header field of a request.
type field struct{ name, value string }

// send makes a request.
func (c *client) send(method, path string, body []byte, fields ...field) (*answer, error) {
	return c.sendMidway(method, path, body, nil, fields...)
}

// sendMidway makes a request, and calls midway when a large answer is under way.
func (c *client) sendMidway(
	method, path string, body []byte, midway func() error, fields ...field,
) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, field := range fields {
		request.Header.Set(field.name, field.value)
	}
	response, err := c.requests.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var start []byte
	if midway != nil {
		start = make([]byte, 1<<20)
		if _, err := io.ReadFull(response.Body, start); err != nil {
			return nil, err
		}
		if err := midway(); err != nil {
			return nil, err
		}
	}
	rest, err := io.ReadAll(response.Body)
	return &answer{response.StatusCode, response.Header, append(start, rest...)}, err
}

// whole says whether an answer is all of an object.
func (c *client) whole(path string, a *answer) error {
	if a.status != http.StatusOK {
		return fmt.Errorf("%s: status %d", path, a.status)
	}
	sum := sha256.Sum256(a.body)
	if found := hex.EncodeToString(sum[:]); found != c.objects[path] {
		return fmt.Errorf("%s: %d bytes with another hash, %s", path, len(a.body), found)
	}
	if length := a.fields.Get("Content-Length"); length != fmt.Sprint(len(a.body)) {
		return fmt.Errorf("%s: content-length %s for %d bytes", path, length, len(a.body))
	}
	return nil
}

// get fetches an object and checks it.
func (c *client) get(path string, fields ...field) (*answer, error) {
	a, err := c.send(http.MethodGet, path, nil, fields...)
	if err != nil {
		return nil, err
	}
	return a, c.whole(path, a)
}
