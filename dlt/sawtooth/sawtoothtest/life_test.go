package sawtoothtest

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// getInBubble makes a GET, and returns the response and how long it took.
func getInBubble(t testing.TB, n *Node, path string) (response, time.Duration) {
	t.Helper()
	began := time.Now()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+path, nil)
	require.NoError(t, err)
	r := requestInBubble(t, n, req)
	return r, time.Since(began)
}

// inBackground runs do in the background. The func that it returns waits for the result.
func inBackground[T any](do func() T) func() T {
	c := make(chan T, 1)
	go func() { c <- do() }()
	return func() T { return <-c }
}

func setUnservedVersion(h *pb.TransactionHeader) { h.FamilyVersion = "2.0" }

// A batch that no processor serves halts the whole node: it makes no blocks and answers POSTs with
// 503/17, while queries work. When a processor starts, the halt ends at once, and the POSTs that
// were answered 503/17 are executed after all, in order.
func TestUnservedFamilyHaltsTheNode(t *testing.T) {
	runInBubble(t, Options{RESTTimeout: 15 * time.Second}, func(t *testing.T, n *Node) {
		before := makeBatch(t, intkeyTx(Set("w", 1)))
		submitInBubble(t, n, before)
		time.Sleep(3 * time.Second)
		requireStatus(t, n, before, Committed)

		unserved := makeBatch(t, intkeyTx(Set("x", 1)).withHeader(setUnservedVersion))
		other := makeBatch(t, intkeyTx(Set("y", 1))) // has another address, and is in the pool already
		submitInBubble(t, n, unserved, other)
		time.Sleep(3 * time.Second)
		requireStatus(t, n, unserved, Pending)
		requireStatus(t, n, other, Pending)
		blocks := len(n.Chain())

		late, given := makeBatch(t, intkeyTx(Set("z", 1))), makeBatch(t, intkeyTx(Inc("z", 1)))
		began := time.Now()
		r := postInBubble(t, n, late)
		assert.Equal(t, http.StatusServiceUnavailable, r.status)
		assert.Equal(t, codeTimedOut, r.code())
		assert.Equal(t, 15*time.Second, time.Since(began))
		requireStatus(t, n, late, Unknown)
		// The batch counts as sent even if the client cancels its request.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x/batches", bytes.NewReader(marshal(t, &pb.BatchList{Batches: []*pb.Batch{given}})))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/octet-stream")
		_, err = n.Client().Do(req)
		cancel()
		require.Error(t, err)

		for _, path := range []string{"/status", "/blocks", "/batch_statuses?id=" + unserved.GetHeaderSignature()} {
			r, took := getInBubble(t, n, path)
			assert.Equal(t, http.StatusOK, r.status, path)
			assert.Zero(t, took, path)
		}
		time.Sleep(time.Hour)
		requireStatus(t, n, unserved, Pending)
		assert.Len(t, n.Chain(), blocks, "no blocks are made")
		assert.Equal(t, 1, countEntries(n, Halted, unserved))

		n.AddFamily(Family{Name: "intkey", Version: "2.0"})
		time.Sleep(time.Second)
		assert.Equal(t, []batch.ID{batchID(before), batchID(unserved), batchID(other), batchID(late), batchID(given)}, n.Chain())
		submits := makeBatch(t, intkeyTx(Set("v", 1)))
		submitInBubble(t, n, submits)

		n.RemoveFamily(IntKey)
		time.Sleep(2 * time.Second)
		requireStatus(t, n, submits, Pending)
		n.Restart()
		time.Sleep(time.Second)
		requireStatus(t, n, submits, Unknown)
		submitInBubble(t, n, makeBatch(t, intkeyTx(Set("u", 1)).withHeader(setUnservedVersion))) // the halt has ended with the loss of the pool
	})
}

// A validator that is killed answers its open requests with 503/18, at once. Later requests are
// answered with 503/17, and are executed when the validator is up again.
func TestKilledValidator(t *testing.T) {
	runInBubble(t, Options{RESTTimeout: 15 * time.Second}, func(t *testing.T, n *Node) {
		done, pooled := makeBatch(t, intkeyTx(Set("x", 1))), makeBatch(t, intkeyTx(Set("x", 2)))
		submitInBubble(t, n, done)
		time.Sleep(2 * time.Second)
		submitInBubble(t, n, pooled)
		n.RemoveFamily(IntKey)
		time.Sleep(2 * time.Second) // the node is halted now
		waiting := makeBatch(t, intkeyTx(Set("x", 3)))
		answer := inBackground(func() response { return postInBubble(t, n, waiting) })
		asks := inBackground(func() response { return askWait(t, n, pooled, "&wait=10") })
		time.Sleep(4 * time.Second)
		n.KillValidator()
		n.KillValidator() // the validator is dead already
		killed := time.Now()
		assert.Equal(t, codeDisconnected, answer().code())
		assert.Equal(t, codeDisconnected, asks().code())
		assert.Zero(t, time.Since(killed), "at once")
		n.AddFamily(IntKey)

		sent := makeBatch(t, intkeyTx(Set("y", 1)))
		dead := time.Now()
		assert.Equal(t, codeTimedOut, postInBubble(t, n, sent).code()) // so is every query (30-killed-while-waiting.txt)
		assert.Equal(t, 15*time.Second, time.Since(dead))
		n.StartValidator()
		n.StartValidator() // the validator is starting already
		began := time.Now()
		requireStatus(t, n, pooled, Unknown) // a slow answer, without an error
		assert.Equal(t, 650*time.Millisecond, time.Since(began))
		began = time.Now()
		requireStatus(t, n, waiting, Unknown)
		requireStatus(t, n, done, Committed)
		assert.Zero(t, time.Since(began))
		requireStatus(t, n, sent, Pending)
		time.Sleep(2 * time.Second)
		assert.Equal(t, []batch.ID{batchID(done), batchID(sent)}, n.Chain(), "the POST that was answered 503/17 was executed")
		n.StartValidator() // the validator is up already
		requireStatus(t, n, sent, Committed)
	})
}

// The requests that the REST API keeps for a validator that is down are lost when the REST API is
// killed.
func TestKilledREST(t *testing.T) {
	runInBubble(t, Options{RESTTimeout: 15 * time.Second}, func(t *testing.T, n *Node) {
		pooled := makeBatch(t, intkeyTx(Set("x", 1)))
		submitInBubble(t, n, pooled)
		n.Stop()
		require.NoError(t, n.Resume())
		requireStatus(t, n, pooled, Pending) // the validator has noticed nothing
		n.KillValidator()
		lost := makeBatch(t, intkeyTx(Set("y", 1)))
		assert.Equal(t, codeTimedOut, postInBubble(t, n, lost).code())
		n.Stop()
		require.NoError(t, n.Resume())
		n.StartValidator()
		time.Sleep(time.Minute)
		requireStatus(t, n, lost, Unknown)
		assert.Empty(t, n.Chain())
	})
}

// A node that is killed ten times during one batch forgets it ten times, accepts the same bytes
// each time, and executes them once.
func TestTenCrashesDuringOneBatch(t *testing.T) {
	for name, crash := range map[string]func(*Node){
		"node":      (*Node).Restart,
		"validator": func(n *Node) { n.KillValidator(); n.StartValidator() },
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, Options{}, func(t *testing.T, n *Node) {
				first := makeBatch(t, intkeyTx(Set("x", 1)))
				submitInBubble(t, n, first)
				time.Sleep(2 * time.Second)
				b := makeBatch(t, intkeyTx(Inc("x", 1)))
				for try := range 10 {
					submitInBubble(t, n, b)
					requireStatus(t, n, b, Pending)
					submitInBubble(t, n, b)
					assert.Equal(t, 1, n.PoolLen(), "seen lately: ignored")
					crash(n)
					requireStatus(t, n, b, Unknown)
					assert.Zero(t, n.PoolLen())
					assert.Equal(t, try+1, countEntries(n, Accepted, b))
					requireStatus(t, n, first, Committed)
				}
				submitInBubble(t, n, b)
				time.Sleep(2 * time.Second)
				requireStatus(t, n, b, Committed)
				assert.Equal(t, []batch.ID{batchID(first), batchID(b)}, n.Chain())
				value, _ := n.Value("x")
				assert.Equal(t, int64(2), value)
				require.NoError(t, n.Check(Expectation{Order: map[string][]batch.ID{"": {batchID(first), batchID(b)}}}))
			})
		})
	}
}

// Before genesis a POST is accepted and its batch is PENDING, and there is no head to read.
func TestBeforeGenesis(t *testing.T) {
	runInBubble(t, Options{NoGenesis: true}, func(t *testing.T, n *Node) {
		b := makeBatch(t, intkeyTx(Set("x", 1)))
		submitInBubble(t, n, b)
		time.Sleep(time.Minute)
		requireStatus(t, n, b, Pending)
		for path, code := range map[string]int{
			"/blocks": codeNotReady, "/state/" + Address("x"): codeNotReady,
			"/batches/" + b.GetHeaderSignature(): codeBatchNotFound,
		} {
			r, _ := getInBubble(t, n, path)
			assert.Equal(t, code, r.code(), path)
		}
		n.Genesis()
		time.Sleep(time.Second)
		requireStatus(t, n, b, Committed)
		r, _ := getInBubble(t, n, "/blocks")
		assert.Equal(t, http.StatusOK, r.status)
	})
}

// A dead peer of the event stream ends it for all subscribers. Their connections stay open, and a
// new subscriber gets one block. A restart of the REST API repairs the stream.
func TestDeadPeerEndsEvents(t *testing.T) {
	n := Start(t, fastOptions(Options{}))
	old := subscribe(t, n)
	old.send(`{"action":"subscribe"}`)
	old.receive()
	commitValue(t, n, "x", 1)
	assert.Equal(t, "1", old.receive()["block_num"])
	n.BreakEvents()
	commitValue(t, n, "x", 2)
	commitValue(t, n, "x", 3)
	fresh := subscribe(t, n)
	fresh.send(`{"action":"subscribe"}`)
	assert.Equal(t, "1", fresh.receive()["block_num"], "the head of the moment the peer died")
	commitValue(t, n, "x", 4)
	// No event comes on the open connections: the next message is the answer to a malformed one.
	for _, s := range []*subscriber{old, fresh} {
		s.send("nonsense")
		assert.Equal(t, `Invalid input: "nonsense"`, s.receive()["error"])
	}
	n.Stop()
	require.NoError(t, n.Resume())
	again := subscribe(t, n)
	again.send(`{"action":"subscribe"}`)
	assert.Equal(t, "4", again.receive()["block_num"])
	commitValue(t, n, "x", 5)
	assert.Equal(t, "5", again.receive()["block_num"])
	n.KillValidator()
	assert.Equal(t, "Validator unavailable", again.receive()["warning"])
	n.StartValidator()
	commitValue(t, n, "x", 6)
	assert.Equal(t, "6", again.receive()["block_num"])
}
