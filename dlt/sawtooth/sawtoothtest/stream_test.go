package sawtoothtest

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// subscriber is a test's websocket to the node.
type subscriber struct {
	t    *testing.T
	conn *websocket.Conn
}

func subscribe(t *testing.T, n *Node) *subscriber {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), n.URL()+"/subscriptions", &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &subscriber{t: t, conn: conn}
}

func (s *subscriber) send(text string) {
	s.t.Helper()
	require.NoError(s.t, s.conn.Write(s.t.Context(), websocket.MessageText, []byte(text)))
}

// receive returns the next message.
func (s *subscriber) receive() map[string]any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	kind, text, err := s.conn.Read(ctx)
	require.NoError(s.t, err)
	assert.Equal(s.t, websocket.MessageText, kind)
	var m map[string]any
	require.NoError(s.t, json.Unmarshal(text, &m))
	return m
}

// requireSilence requires that the next message is the answer to a request of this func, so that
// no other message was sent before.
func (s *subscriber) requireSilence() {
	s.t.Helper()
	s.send(`{"action":"dance"}`)
	require.Equal(s.t, map[string]any{"error": `Unknown action "dance"`}, s.receive())
}

// requireEnd requires that the socket ends.
func (s *subscriber) requireEnd() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	_, _, err := s.conn.Read(ctx)
	require.Error(s.t, err)
	require.NoError(s.t, ctx.Err(), "it did not end")
}

// commitValue commits a block with a batch that sets a name.
func commitValue(t *testing.T, n *Node, name string, value int64) {
	t.Helper()
	b := makeBatch(t, intkeyTx(Set(name, value)))
	submitOK(t, n, b)
	waitForStatus(t, n, b, Committed)
}

func TestEventsOfBlocks(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	commitValue(t, n, "before", 1)
	s := subscribe(t, n)
	commitValue(t, n, "silent", 1)
	s.requireSilence() // without a subscription no event comes
	s.send(`{"action":"subscribe","address_prefixes":["` + Address("x")[:6] + `"]}`)
	head := s.receive() // there is no acknowledgement: the first message is the event of the head, and no older event comes
	assert.Equal(t, "2", head["block_num"], "a string")
	assert.Len(t, head["block_id"], 128)
	assert.NotContains(t, head, "fork_detected")
	assert.Equal(t, []any{map[string]any{"address": Address("silent"), "type": "SET", "value": "oWZzaWxlbnQB"}}, head["state_changes"])

	b := makeBatch(t, intkeyTx(Set("x", 1)), intkeyTx(Inc("x", 4))) // the event has only the last change of the address
	submitOK(t, n, b)
	next := s.receive()
	assert.Equal(t, "3", next["block_num"])
	assert.Equal(t, head["block_id"], next["previous_block_id"])
	assert.Equal(t, []any{map[string]any{"address": Address("x"), "type": "SET", "value": "oWF4BQ=="}}, next["state_changes"])

	s.send(`{"action":"unsubscribe"}`)
	s.requireSilence()
	commitValue(t, n, "x", 7)
	s.requireSilence()
}

// A block without a matching change is an event with no changes.
func TestEventsWithoutChanges(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	s := subscribe(t, n)
	s.send(`{"action":"subscribe","address_prefixes":["ffff"]}`)
	genesis := s.receive()
	assert.Equal(t, "0000000000000000", genesis["previous_block_id"])
	commitValue(t, n, "x", 1)
	assert.Equal(t, []any{}, s.receive()["state_changes"])
}

// A second subscribe adds a subscription, and unsubscribe removes one.
func TestSubscribedTwice(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	s := subscribe(t, n)
	for range 2 {
		s.send(`{"action":"subscribe"}`)
		assert.Equal(t, "0", s.receive()["block_num"])
	}
	commitValue(t, n, "x", 1)
	once := s.receive()
	assert.Equal(t, once, s.receive())
	s.requireSilence()
	s.send(`{"action":"unsubscribe"}`)
	s.requireSilence()
	commitValue(t, n, "x", 2)
	assert.Equal(t, "2", s.receive()["block_num"])
	s.requireSilence()
}

func TestBlockDeltas(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	s := subscribe(t, n)
	s.send(`{"action":"subscribe"}`)
	genesis := s.receive()["block_id"].(string)
	commitValue(t, n, "x", 1)
	first := s.receive()
	commitValue(t, n, "x", 2)
	assert.Equal(t, "2", s.receive()["block_num"])
	s.send(`{"action":"get_block_deltas","block_id":"` + first["block_id"].(string) + `"}`)
	assert.Equal(t, first, s.receive())
	s.send(`{"action":"get_block_deltas","block_id":"` + genesis + `","address_prefixes":["00"]}`)
	assert.Equal(t, []any{}, s.receive()["state_changes"])
	s.send(`{"action":"get_block_deltas"}`)
	assert.Contains(t, s.receive()["error"], "block id")
	s.send(`{"action":`)
	assert.Contains(t, s.receive()["error"], "Invalid input")
	s.send(`{"action":"get_block_deltas","block_id":"00"}`)
	s.requireEnd()
}

// A message that is no JSON object ends the socket.
func TestSocketOfAMessageThatIsNoObject(t *testing.T) {
	s := subscribe(t, Start(t, nil))
	s.send(`[1]`)
	s.requireEnd()
}

// Block numbers are compared as text, so 10 is wrongly reported as a fork. A real fork reports
// numbers again, and its batches are committed again without being PENDING in between.
func TestForks(t *testing.T) {
	n := Start(t, fastOptions(Options{BlockInterval: 20 * time.Millisecond}))
	s := subscribe(t, n)
	s.send(`{"action":"subscribe"}`)
	previous := s.receive()["block_id"]
	for i := range 11 {
		commitValue(t, n, "x", int64(i))
		m := s.receive()
		assert.Equal(t, previous, m["previous_block_id"])
		assert.Equal(t, i+1 == 10, m["fork_detected"] == true, "block %s", m["block_num"])
		previous = m["block_id"]
	}
	chain := n.Chain()
	var gone []batch.ID
	var word string
	n.whileLocked(func(now time.Time) { // so that no block is made in between
		gone = n.validator.fork(now, 2, 1)
		word = n.validator.tracker.peekStatus(now, gone[0])
		n.wake()
	})
	assert.Equal(t, chain[9:], gone)
	assert.Equal(t, Unknown, word, "in the pool, and not pending")
	m := s.receive()
	assert.Equal(t, "10", m["block_num"])
	assert.Equal(t, true, m["fork_detected"])
	assert.NotEqual(t, previous, m["previous_block_id"])
	require.Eventually(t, func() bool { return len(n.Chain()) == 11 }, 30*time.Second, time.Millisecond, "they are committed again")
	value, _ := n.Value("x")
	assert.EqualValues(t, 10, value)
	assert.Len(t, n.History("x"), 11)
	require.NoError(t, n.Check(Expectation{Order: map[string][]batch.ID{"": chain}}))
}

// A batch of a lost fork has no effect, but its receipts stay.
func TestForkedBatchesAreGone(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	b := makeBatch(t, intkeyTx(Set("x", 1)))
	submitOK(t, n, b)
	waitForStatus(t, n, b, Committed)
	n.whileLocked(func(now time.Time) {
		assert.Equal(t, []batch.ID{batchID(b)}, n.validator.fork(now, 100, 1), "never the genesis block")
		assert.Empty(t, n.validator.chain.state)
		assert.Empty(t, n.validator.chain.history["x"])
		assert.Empty(t, n.validator.chain.batches)
		assert.Empty(t, n.validator.chain.txs)
		assert.Len(t, n.validator.chain.receipts, 1)
		assert.Len(t, n.validator.chain.blocks, 3, "genesis, and two for the one that went")
	})
	waitForStatus(t, n, b, Committed)
}

// A batch of a lost fork is not in the chain until it is committed again, and its receipts stay
// (docs/ledgers/sawtooth.md#receipts-and-lookups).
func TestReceiptsAfterAFork(t *testing.T) {
	runInBubble(t, Options{BlockInterval: time.Minute}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		submitInBubble(t, n, b)
		time.Sleep(2 * time.Minute)
		get := func(path string) int {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+path, nil)
			require.NoError(t, err)
			return requestInBubble(t, n, req).status
		}
		tx := b.GetTransactions()[0].GetHeaderSignature()
		for _, forked := range []bool{false, true} {
			want := http.StatusOK
			if forked {
				assert.Equal(t, []batch.ID{batchID(b)}, n.Fork(1))
				assert.Equal(t, Unknown, n.Status(batchID(b)))
				want = http.StatusNotFound
			}
			assert.Equal(t, want, get("/batches/"+b.GetHeaderSignature()))
			assert.Equal(t, want, get("/transactions/"+tx))
			assert.Equal(t, want, get("/state/"+Address("x")))
			assert.Equal(t, http.StatusOK, get("/receipts?id="+tx))
		}
		time.Sleep(2 * time.Minute)
		assert.Equal(t, Committed, n.Status(batchID(b)))
		require.NoError(t, n.Check(Expectation{Order: map[string][]batch.ID{"": {batchID(b)}}}))
	})
}

// Blocks from while the validator was away are never reported.
func TestLostEvents(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	s := subscribe(t, n)
	s.send(`{"action":"subscribe"}`)
	genesis := s.receive()
	n.LoseEvents()
	assert.Equal(t, map[string]any{"warning": "Validator unavailable"}, s.receive())
	commitValue(t, n, "x", 1)
	n.RestoreEvents()
	commitValue(t, n, "x", 2)
	m := s.receive()
	assert.Equal(t, "2", m["block_num"])
	assert.NotEqual(t, genesis["block_id"], m["previous_block_id"])
}

func TestDropSockets(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	for name, drop := range map[string]func(){
		"dropped": n.DropSockets, "restarted": n.Restart,
		"stopped": func() { n.Stop(); require.NoError(t, n.Resume()) },
	} {
		s := subscribe(t, n)
		s.send(`{"action":"subscribe"}`)
		s.receive()
		assert.Equal(t, 1, n.Sockets(), name)
		drop()
		s.requireEnd()
		require.Eventually(t, func() bool { return n.Sockets() == 0 }, 30*time.Second, time.Millisecond, name)
	}
}

// The upgrade to a websocket can have faults, and a plain GET is not an upgrade.
func TestUpgrade(t *testing.T) {
	n := Start(t, &Options{Faults: &Faults{Request: func(p RequestPoint) Fault {
		if p.Operation == OpSubscribe {
			return Fault{Answer: AnswerError, Status: http.StatusServiceUnavailable}
		}
		return Fault{}
	}}})
	assert.Equal(t, http.StatusServiceUnavailable, sendRequest(t, http.MethodGet, n.URL()+"/subscriptions", "", nil).status)
	assert.Equal(t, http.StatusUpgradeRequired, sendRequest(t, http.MethodGet, Start(t, nil).URL()+"/subscriptions", "", nil).status)
	assert.Equal(t, http.StatusMethodNotAllowed, sendRequest(t, http.MethodPost, n.URL()+"/subscriptions", "", nil).status)
}
