package sawtoothtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// OpSubscribe is the upgrade of GET /subscriptions; only Faults.Request gives it faults.
const OpSubscribe Operation = "subscribe"

// blockNotice is a message of the REST API to all subscribers: a block, or a warning.
type blockNotice struct {
	block   block
	isFork  bool   // the value of fork_detected, which is a guess (docs/ledgers/sawtooth.md#events)
	warning string // the text of a warning, instead of a block
}

// announce reports a new head to the subscribers. It compares block numbers as text, so that 10
// after 9 counts as a fork (docs/ledgers/sawtooth.md#events).
func (c *chain) announce(b block) {
	if c.areEventsLost || c.headAtBreak != nil {
		return
	}
	num := strconv.Itoa(b.number)
	c.notices = append(c.notices, blockNotice{block: b, isFork: num <= c.lastAnnounced})
	c.lastAnnounced = num
}

// LoseEvents makes the REST API lose the validator's events: subscribers are warned, and the
// blocks until [Node.RestoreEvents] are never reported.
func (n *Node) LoseEvents() {
	n.whileLocked(func(time.Time) {
		n.validator.chain.loseEvents()
		n.wake()
	})
}

// loseEvents warns the subscribers. From then on no block is reported.
func (c *chain) loseEvents() {
	c.areEventsLost = true
	if c.headAtBreak == nil {
		c.notices = append(c.notices, blockNotice{warning: "Validator unavailable"})
	}
}

// BreakEvents makes a dead peer end the event stream for all subscribers, as a real node did:
// no block is reported any more, and neither is this failure. Connections stay open and answer
// pings. A new subscriber gets one block, the head of this moment, and then nothing. A restart
// of the REST API repairs it ([Node.Stop] and [Node.Resume], or [Node.Restart]).
func (n *Node) BreakEvents() {
	n.whileLocked(func(time.Time) { n.validator.chain.breakEvents() })
}

func (c *chain) breakEvents() {
	if c.headAtBreak == nil {
		head := c.blocks[len(c.blocks)-1]
		c.headAtBreak = &head
	}
}

// RestoreEvents ends a [Node.LoseEvents]. Blocks from in between are never reported.
func (n *Node) RestoreEvents() {
	n.whileLocked(func(time.Time) { n.validator.chain.areEventsLost = false })
}

// DropSockets ends all open websockets without a goodbye. New ones can be opened.
func (n *Node) DropSockets() {
	n.socketMu.Lock()
	open := slices.Collect(maps.Keys(n.sockets))
	n.socketMu.Unlock()
	for _, s := range open {
		_ = s.conn.CloseNow() // the connection may have ended already
	}
}

// Sockets returns the number of open websockets.
func (n *Node) Sockets() int {
	n.socketMu.Lock()
	defer n.socketMu.Unlock()
	return len(n.sockets)
}

// socket is one websocket. One goroutine serves it, and another one reads from it.
type socket struct {
	node *Node
	conn *websocket.Conn
	// The address prefixes of each subscription. A second subscription is added to the first, and
	// then all messages come twice (docs/ledgers/sawtooth.md#events).
	subscriptions    [][]string
	newSubscriptions [][]string // subscriptions that have not got the head yet
	nextNotice       int        // index in chain.notices
}

// serveSubscription serves the websocket (docs/ledgers/sawtooth.md#events). It sends no pings, no
// acknowledgements and no old blocks.
func (n *Node) serveSubscription(w http.ResponseWriter, r *http.Request) {
	_, fault := n.beginRead(OpSubscribe, nil)
	if !n.pause(r.Context(), fault.Delay) {
		simnode.Reset(w)
		return
	}
	select {
	case <-n.closed:
		n.send(w, r, textAnswer(http.StatusServiceUnavailable, "503: Service Unavailable"), fault)
		return
	default:
	}
	if fault.Answer != AnswerProperly {
		n.send(w, r, textAnswer(http.StatusOK, "no websocket"), fault)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the REST API does not check the origin
	if err != nil {
		return // Accept has sent the answer
	}
	conn.SetReadLimit(n.options.MaxBody)
	s := &socket{node: n, conn: conn}
	n.socketMu.Lock()
	n.sockets[s] = struct{}{}
	n.socketMu.Unlock()
	// The request's context has no meaning after its connection was taken over.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	messages := make(chan []byte)
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read(ctx, messages)
	}()
	s.serve(ctx, messages)
	cancel()
	_ = conn.CloseNow() // the connection may have ended already
	<-read
	n.socketMu.Lock()
	delete(n.sockets, s)
	n.socketMu.Unlock()
}

// read passes on the client's messages until the socket ends. Reading also answers pings.
func (s *socket) read(ctx context.Context, messages chan<- []byte) {
	defer close(messages)
	for {
		kind, text, err := s.conn.Read(ctx)
		if err != nil {
			return
		}
		if kind != websocket.MessageText {
			continue
		}
		select {
		case messages <- text:
		case <-ctx.Done():
			return
		}
	}
}

// serve sends the messages that are due, and handles the client's messages.
func (s *socket) serve(ctx context.Context, messages <-chan []byte) {
	for {
		var out []map[string]any
		var changed chan struct{}
		timer := time.NewTimer(time.Hour)
		s.node.whileLocked(func(now time.Time) {
			out, changed = s.dueMessages(), s.node.changed
			if at, ok := s.node.validator.nextTime(); ok {
				timer.Reset(at.Sub(now))
			}
		})
		if !s.write(ctx, out) {
			timer.Stop()
			return
		}
		goesOn := true
		select {
		case m, open := <-messages:
			goesOn = open && s.handle(ctx, m)
		case <-changed:
		case <-timer.C:
		case <-s.node.closed:
			goesOn = false
		}
		timer.Stop()
		if !goesOn {
			return
		}
	}
}

func (s *socket) write(ctx context.Context, out []map[string]any) bool {
	for _, m := range out {
		text, err := json.Marshal(m)
		if err != nil {
			panic(err) // cannot fail for maps, slices, strings and booleans
		}
		if s.conn.Write(ctx, websocket.MessageText, text) != nil {
			return false
		}
	}
	return true
}

// dueMessages returns the messages that are due, each once for every subscription. The caller
// holds the node's lock.
func (s *socket) dueMessages() (out []map[string]any) {
	c := s.node.validator.chain
	if !s.node.validator.isDown && !s.node.validator.lacksGenesis {
		head := c.blocks[len(c.blocks)-1]
		if c.headAtBreak != nil {
			head = *c.headAtBreak
		}
		for _, prefixes := range s.newSubscriptions {
			out = append(out, c.blockEvent(head, prefixes))
		}
		s.newSubscriptions = nil
	}
	for ; s.nextNotice < len(c.notices); s.nextNotice++ {
		x := c.notices[s.nextNotice]
		for _, prefixes := range s.subscriptions {
			if x.warning != "" {
				out = append(out, map[string]any{"warning": x.warning})
				continue
			}
			m := c.blockEvent(x.block, prefixes)
			if x.isFork {
				m["fork_detected"] = true
			}
			out = append(out, m)
		}
	}
	return out
}

// blockEvent returns a block's event: for each address only its last change.
func (c *chain) blockEvent(b block, prefixes []string) map[string]any {
	last := map[string]string{}
	for _, x := range b.batches {
		for _, tx := range x.txs {
			for _, w := range c.receipts[tx.id].writes {
				if len(prefixes) == 0 || isCovered(prefixes, w.address) {
					last[w.address] = w.value
				}
			}
		}
	}
	changes := make([]any, 0, len(last))
	for _, address := range slices.Sorted(maps.Keys(last)) {
		changes = append(changes, map[string]any{"address": address, "type": "SET", "value": base64Text([]byte(last[address]))})
	}
	return map[string]any{
		"block_id": b.id, "block_num": strconv.Itoa(b.number), "previous_block_id": b.previousID, "state_changes": changes,
	}
}

// handle handles one message of the client, and reports whether the socket stays open.
func (s *socket) handle(ctx context.Context, text []byte) bool {
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		return s.write(ctx, []map[string]any{{"error": fmt.Sprintf("Invalid input: %q", text)}})
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return false // the real handler raises an exception
	}
	var prefixes []string
	if list, ok := m["address_prefixes"].([]any); ok {
		for _, x := range list {
			if p, ok := x.(string); ok {
				prefixes = append(prefixes, p)
			}
		}
	}
	var out []map[string]any
	alive := true
	s.node.whileLocked(func(time.Time) {
		c := s.node.validator.chain
		out = s.dueMessages() // for the subscriptions so far
		switch m["action"] {
		case "subscribe":
			s.subscriptions, s.newSubscriptions = append(s.subscriptions, prefixes), append(s.newSubscriptions, prefixes)
			out = append(out, s.dueMessages()...)
		case "unsubscribe":
			if len(s.subscriptions) > 0 {
				s.subscriptions = s.subscriptions[1:]
			}
		case "get_block_deltas":
			id, ok := m["block_id"].(string)
			if !ok {
				out = append(out, map[string]any{"error": "Must specify a block id"})
				return
			}
			at := slices.IndexFunc(c.blocks, func(b block) bool { return b.id == id })
			if alive = at >= 0; alive {
				out = append(out, c.blockEvent(c.blocks[at], prefixes))
			}
		default:
			out = append(out, map[string]any{"error": fmt.Sprintf("Unknown action %q", fmt.Sprint(m["action"]))})
		}
	})
	return s.write(ctx, out) && alive
}
