package evm

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// headSocket receives the numbers of new blocks over a WebSocket (eth_subscribe) during one call
// of Events. When a connection has ended or was quiet, it opens another one. Polling finds the
// blocks that the socket misses.
type headSocket struct {
	heads      chan uint64
	lastHead   atomic.Uint64 // the last number that the socket received
	missedHead chan struct{} // receives a value when the connection misses blocks
	reader     sync.WaitGroup
}

// maxHead is the limit of a message's size: the header of a block is a few kilobytes.
const maxHead = 1 << 20

// listen starts a socket, which ends with ctx. Without Options.HeadSocket it receives nothing.
func (c *Client) listen(ctx context.Context, pause time.Duration) *headSocket {
	s := &headSocket{heads: make(chan uint64), missedHead: make(chan struct{}, 1)}
	if c.options.HeadSocket == "" {
		return s
	}
	s.reader.Go(func() {
		timer := time.NewTicker(pause)
		defer timer.Stop()
		for ctx.Err() == nil {
			c.readHeads(ctx, s)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
		}
	})
	return s
}

// noteHead tells the socket of a head that polling has found. If the socket has not received that
// head, its connection is closed.
func (s *headSocket) noteHead(head uint64) {
	if head <= s.lastHead.Load() {
		return
	}
	select {
	case s.missedHead <- struct{}{}:
	default:
	}
}

// readHeads sends the numbers of new blocks to s.heads until the connection ends or is quiet. It
// reports no errors, because the polling reports the node's errors.
func (c *Client) readHeads(ctx context.Context, s *headSocket) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialing, end := context.WithTimeout(ctx, headTimeout)
	defer end()
	conn, resp, err := websocket.Dial(dialing, c.options.HeadSocket, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: c.options.Header.Clone()})
	if resp != nil && resp.Body != nil {
		defer func() { _ = resp.Body.Close() }() // the body of a refusal
	}
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }() // no request is under way
	conn.SetReadLimit(maxHead)
	if conn.Write(dialing, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}`)) != nil {
		return
	}
	select {
	case <-s.missedHead: // left by the connection before
	default:
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-s.missedHead:
			cancel()
		case <-ctx.Done():
		}
	})
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return
		}
		head, is := readHead(raw)
		if !is {
			continue
		}
		s.lastHead.Store(head)
		select {
		case s.heads <- head:
		case <-ctx.Done():
			return
		}
	}
}

// readHead reads the number of a block from a notification. is is false for any other message.
func readHead(raw []byte) (head uint64, is bool) {
	var doc struct {
		Method string `json:"method"`
		Params struct {
			Result struct {
				Number json.RawMessage `json:"number"`
			} `json:"result"`
		} `json:"params"`
	}
	if json.Unmarshal(raw, &doc) != nil || doc.Method != "eth_subscription" || len(doc.Params.Result.Number) == 0 {
		return 0, false
	}
	head, err := decodeNumber(answer{result: doc.Params.Result.Number})
	return head, err == nil
}
