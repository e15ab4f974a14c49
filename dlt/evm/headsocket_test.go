package evm_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
)

// headNode is a node that reports new heads over a WebSocket, and answers which block is its last.
type headNode struct {
	head                   atomic.Uint64
	pollCount, socketCount atomic.Int64
	isSilent               atomic.Bool // connections stay open and report nothing
	newHeads               chan struct{}
}

func (w *headNode) serveHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		w.pollCount.Add(1)
		_, _ = fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":1,"result":"0x%x"}`, w.head.Load())
		return
	}
	conn, err := websocket.Accept(rw, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	_, asked, err := conn.Read(r.Context())
	if err != nil || !strings.Contains(string(asked), "newHeads") {
		return
	}
	_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"result":"0xcd0c3e8af590364c09d0fa6a1210faf5"}`))
	w.socketCount.Add(1)
	ctx := conn.CloseRead(r.Context())
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.newHeads:
			if !w.isSilent.Load() {
				_ = conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0xcd","result":{"number":"0x%x"}}}`, w.head.Load()))
			}
		}
	}
}

// startEvents returns the events of a client of the node.
func (w *headNode) startEvents(t *testing.T, interval time.Duration) <-chan dlt.Event {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(w.serveHTTP))
	t.Cleanup(server.Close)
	c, err := evm.New(server.URL, 1337, &evm.Options{HeadInterval: interval, HeadSocket: "ws" + strings.TrimPrefix(server.URL, "http")})
	require.NoError(t, err)
	events := make(chan dlt.Event, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- c.Events(ctx, nil, func(e dlt.Event) error { events <- e; return nil })
	}()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	return events
}

// While the node reports each block over the socket, the client does not poll it.
func TestHeadsBySocket(t *testing.T) {
	w := &headNode{newHeads: make(chan struct{})}
	w.head.Store(100)
	events := w.startEvents(t, time.Hour)
	assert.True(t, (<-events).Live)
	for range 5 {
		w.head.Add(1)
		w.newHeads <- struct{}{}
		assert.False(t, (<-events).Live)
	}
	assert.EqualValues(t, 1, w.pollCount.Load(), "it was asked once, at the start")
}

// No block is missed when a socket goes quiet: polling finds the next block, and the client opens
// another connection, which reports blocks again.
func TestASilentSocketIsReplaced(t *testing.T) {
	w := &headNode{newHeads: make(chan struct{})}
	w.head.Store(100)
	events := w.startEvents(t, 50*time.Millisecond)
	<-events
	w.head.Add(1)
	w.newHeads <- struct{}{}
	<-events
	opened := w.socketCount.Load()
	w.isSilent.Store(true)
	w.head.Add(1) // without a report over the socket
	<-events
	w.isSilent.Store(false)
	require.Eventually(t, func() bool { return w.socketCount.Load() > opened }, 10*time.Second, time.Millisecond)
}

func TestHeadSocketIsChecked(t *testing.T) {
	for _, c := range []struct {
		options  evm.Options
		wantText string
	}{
		{evm.Options{HeadSocket: "http://localhost", HeadInterval: time.Second}, "Options.HeadSocket"},
		{evm.Options{HeadSocket: "ws://", HeadInterval: time.Second}, "Options.HeadSocket"},
		{evm.Options{HeadSocket: "ws://localhost"}, "Options.HeadInterval"},
	} {
		_, err := evm.New("http://localhost:8545", 1, &c.options)
		require.ErrorContains(t, err, c.wantText)
	}
}
