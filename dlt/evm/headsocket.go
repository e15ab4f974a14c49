package evm

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// headSocket hears of new blocks over a WebSocket (eth_subscribe), as long as one call of Events
// lasts. It opens another connection for one that has ended or was quiet. Polling finds the blocks
// that it misses.
type headSocket struct {
	heads      chan uint64
	lastHead   atomic.Uint64 // the last number that it heard
	missedHead chan struct{} // the connection tells nothing any more
	reader     sync.WaitGroup
}

// maxHead bounds a message: the header of a block is a few kilobytes.
const maxHead = 1 << 20

// listen starts a socket, which ends with ctx. Without an address nothing is ever heard.
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

// noteHead tells the socket of a head that another question has found. If the socket has not heard
// of it, its connection is dropped.
func (s *headSocket) noteHead(head uint64) {
	if head <= s.lastHead.Load() {
		return
	}
	select {
	case s.missedHead <- struct{}{}:
	default:
	}
}

// readHeads tells of new blocks until the connection ends or is quiet. Its errors are not
// reported: the polling beside it reports the node's.
func (c *Client) readHeads(ctx context.Context, s *headSocket) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialing, end := context.WithTimeout(ctx, headTimeout)
	defer end()
	conn, resp, err := websocket.Dial(dialing, c.options.HeadSocket, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: c.options.Header.Clone()})
	if resp != nil && resp.Body != nil {
		defer func() { _ = resp.Body.Close() }() // of a refusal
	}
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }() // nothing is under way
	conn.SetReadLimit(maxHead)
	if conn.Write(dialing, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}`)) != nil {
		return
	}
	select {
	case <-s.missedHead: // of the connection before
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

// readHead reads the number of a block from a notification.
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
	head, err := number(answer{result: doc.Params.Result.Number})
	return head, err == nil
}
