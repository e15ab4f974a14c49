package splintertest

import (
	"encoding/json"
	"net"
	"slices"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// receipt is the record of a committed transaction.
type receipt struct {
	id      string
	changes map[string][]byte
}

func (r receipt) event() []byte {
	changes := make([]any, 0, len(r.changes))
	for address, v := range r.changes {
		changes = append(changes, map[string]any{"Set": map[string]any{"key": address, "value": byteNumbers(v)}})
	}
	b, err := json.Marshal(map[string]any{"id": r.id, "state_changes": changes})
	if err != nil {
		panic(err) // cannot fail
	}
	return b
}

// byteNumbers returns bytes as an array of numbers, as a node writes them in JSON.
func byteNumbers(b []byte) []int {
	out := make([]int, len(b))
	for i, c := range b {
		out[i] = int(c)
	}
	return out
}

const replayPageLen = 64

// replayCursor is the position of a replay of the history. A page is the first 64, in the order of
// their commits, of the receipts whose id is lexicographically greater than the last id of the
// page before. So pages may repeat receipts, and many receipts are never sent. The replay ends
// with an empty page. A subscription with last_seen_event starts at that id; without it the first
// page has no bound.
type replayCursor struct {
	afterID  string
	hasBound bool // true if the page begins after the id after
	hasEnded bool
	page     []receipt
}

// loadPage reads the next page. The caller holds the lock.
func (c *replayCursor) loadPage(all []receipt) {
	for _, r := range all {
		if (!c.hasBound || r.id > c.afterID) && len(c.page) < replayPageLen {
			c.page = append(c.page, r)
		}
	}
	if c.hasEnded = len(c.page) == 0; !c.hasEnded {
		c.afterID, c.hasBound = c.page[len(c.page)-1].id, true
	}
}

// register reads the first page, and adds the subscriber after that. Commits in between are not
// sent, unless a later page has them.
func (v *node) register(s *service, x *stream) {
	if v.options.SubscribeGap > 0 {
		v.pause(v.options.SubscribeGap)
	}
	v.mu.Lock()
	s.streams[x] = struct{}{}
	v.mu.Unlock()
}

// replay sends one page after another. It reads each page when the one before was sent. Commits
// during the replay are sent after it.
func (v *node) replay(s *service, x *stream, c *replayCursor) error {
	for !c.hasEnded {
		page := slices.Clone(c.page)
		for _, r := range page {
			if err := x.write(frameText, r.event()); err != nil {
				return err
			}
		}
		c.page = nil
		v.mu.Lock()
		c.loadPage(s.receipts)
		v.mu.Unlock()
	}
	return nil
}

// CutStreams ends the websockets of a node.
func (n *Network) CutStreams(node int) {
	n.mu.Lock()
	var conns []net.Conn
	for _, s := range n.services {
		if s.node != n.nodes[node] {
			continue
		}
		for x := range s.streams {
			if x.conn != nil {
				conns = append(conns, x.conn)
			}
		}
	}
	n.mu.Unlock()
	for _, c := range conns {
		simnode.Abort(c)
	}
}

// Streams returns the number of subscribers of the i-th service.
func (n *Network) Streams(i int) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.services[i].streams)
}
