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

// bubbleGet makes a GET, and returns the response and how long it took.
func bubbleGet(t testing.TB, n *Node, path string) (response, time.Duration) {
	t.Helper()
	began := time.Now()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+path, nil)
	require.NoError(t, err)
	r := bubble(t, n, req)
	return r, time.Since(began)
}

// aside runs do in the background. The func that it returns waits for the result.
func aside[T any](do func() T) func() T {
	c := make(chan T, 1)
	go func() { c <- do() }()
	return func() T { return <-c }
}

func strange(h *pb.TransactionHeader) { h.FamilyVersion = "2.0" }

// A batch that no processor serves halts the whole node: it makes no blocks and answers POSTs with
// 503/17, while queries work. When a processor starts, the halt ends at once, and the POSTs that
// were answered 503/17 are executed after all, in order.
func TestUnservedFamilyHaltsTheNode(t *testing.T) {
	inBubble(t, Options{RESTTimeout: 15 * time.Second}, func(t *testing.T, n *Node) {
		before := mk(t, call(Set("w", 1)))
		bubbleSubmit(t, n, before)
		time.Sleep(3 * time.Second)
		is(t, n, before, Committed)

		unserved := mk(t, call(Set("x", 1)).with(strange))
		other := mk(t, call(Set("y", 1))) // has another address, and is in the pool already
		bubbleSubmit(t, n, unserved, other)
		time.Sleep(3 * time.Second)
		is(t, n, unserved, Pending)
		is(t, n, other, Pending)
		blocks := len(n.Chain())

		late, given := mk(t, call(Set("z", 1))), mk(t, call(Inc("z", 1)))
		began := time.Now()
		r := bubblePost(t, n, late)
		assert.Equal(t, http.StatusServiceUnavailable, r.status)
		assert.Equal(t, codeTimedOut, r.code())
		assert.Equal(t, 15*time.Second, time.Since(began))
		is(t, n, late, Unknown)
		// The batch counts as sent even if the client cancels its request.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x/batches", bytes.NewReader(marshal(t, &pb.BatchList{Batches: []*pb.Batch{given}})))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/octet-stream")
		_, err = n.Client().Do(req)
		cancel()
		require.Error(t, err)

		for _, path := range []string{"/status", "/blocks", "/batch_statuses?id=" + unserved.GetHeaderSignature()} {
			r, took := bubbleGet(t, n, path)
			assert.Equal(t, http.StatusOK, r.status, path)
			assert.Zero(t, took, path)
		}
		time.Sleep(time.Hour)
		is(t, n, unserved, Pending)
		assert.Len(t, n.Chain(), blocks, "no blocks are made")
		assert.Equal(t, 1, kinds(n, Halted, unserved))

		n.AddFamily(Family{Name: "intkey", Version: "2.0"})
		time.Sleep(time.Second)
		assert.Equal(t, []batch.ID{id(before), id(unserved), id(other), id(late), id(given)}, n.Chain())
		submits := mk(t, call(Set("v", 1)))
		bubbleSubmit(t, n, submits)

		n.RemoveFamily(IntKey)
		time.Sleep(2 * time.Second)
		is(t, n, submits, Pending)
		n.Restart()
		time.Sleep(time.Second)
		is(t, n, submits, Unknown)
		bubbleSubmit(t, n, mk(t, call(Set("u", 1)).with(strange))) // the halt has ended with the loss of the pool
	})
}

// A validator that is killed answers its open requests with 503/18, at once. Later requests are
// answered with 503/17, and are executed when the validator is up again.
func TestKilledValidator(t *testing.T) {
	inBubble(t, Options{RESTTimeout: 15 * time.Second}, func(t *testing.T, n *Node) {
		done, pooled := mk(t, call(Set("x", 1))), mk(t, call(Set("x", 2)))
		bubbleSubmit(t, n, done)
		time.Sleep(2 * time.Second)
		bubbleSubmit(t, n, pooled)
		n.RemoveFamily(IntKey)
		time.Sleep(2 * time.Second) // the node is halted now
		waiting := mk(t, call(Set("x", 3)))
		answer := aside(func() response { return bubblePost(t, n, waiting) })
		asks := aside(func() response { return askWait(t, n, pooled, "&wait=10") })
		time.Sleep(4 * time.Second)
		n.KillValidator()
		n.KillValidator() // the validator is dead already
		killed := time.Now()
		assert.Equal(t, codeDisconnected, answer().code())
		assert.Equal(t, codeDisconnected, asks().code())
		assert.Zero(t, time.Since(killed), "at once")
		n.AddFamily(IntKey)

		sent := mk(t, call(Set("y", 1)))
		dead := time.Now()
		assert.Equal(t, codeTimedOut, bubblePost(t, n, sent).code()) // so is every query (30-killed-while-waiting.txt)
		assert.Equal(t, 15*time.Second, time.Since(dead))
		n.StartValidator()
		n.StartValidator() // the validator is starting already
		began := time.Now()
		is(t, n, pooled, Unknown) // a slow answer, without an error
		assert.Equal(t, 650*time.Millisecond, time.Since(began))
		began = time.Now()
		is(t, n, waiting, Unknown)
		is(t, n, done, Committed)
		assert.Zero(t, time.Since(began))
		is(t, n, sent, Pending)
		time.Sleep(2 * time.Second)
		assert.Equal(t, []batch.ID{id(done), id(sent)}, n.Chain(), "the POST that was answered 503/17 was executed")
		n.StartValidator() // the validator is up already
		is(t, n, sent, Committed)
	})
}

// The requests that the REST API keeps for a validator that is down are lost when the REST API is
// killed.
func TestKilledREST(t *testing.T) {
	inBubble(t, Options{RESTTimeout: 15 * time.Second}, func(t *testing.T, n *Node) {
		pooled := mk(t, call(Set("x", 1)))
		bubbleSubmit(t, n, pooled)
		n.Stop()
		require.NoError(t, n.Resume())
		is(t, n, pooled, Pending) // the validator has noticed nothing
		n.KillValidator()
		lost := mk(t, call(Set("y", 1)))
		assert.Equal(t, codeTimedOut, bubblePost(t, n, lost).code())
		n.Stop()
		require.NoError(t, n.Resume())
		n.StartValidator()
		time.Sleep(time.Minute)
		is(t, n, lost, Unknown)
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
			inBubble(t, Options{}, func(t *testing.T, n *Node) {
				first := mk(t, call(Set("x", 1)))
				bubbleSubmit(t, n, first)
				time.Sleep(2 * time.Second)
				b := mk(t, call(Inc("x", 1)))
				for try := range 10 {
					bubbleSubmit(t, n, b)
					is(t, n, b, Pending)
					bubbleSubmit(t, n, b)
					assert.Equal(t, 1, n.PoolLen(), "seen lately: ignored")
					crash(n)
					is(t, n, b, Unknown)
					assert.Zero(t, n.PoolLen())
					assert.Equal(t, try+1, kinds(n, Accepted, b))
					is(t, n, first, Committed)
				}
				bubbleSubmit(t, n, b)
				time.Sleep(2 * time.Second)
				is(t, n, b, Committed)
				assert.Equal(t, []batch.ID{id(first), id(b)}, n.Chain())
				value, _ := n.Value("x")
				assert.Equal(t, int64(2), value)
				require.NoError(t, n.Check(Expectation{Order: map[string][]batch.ID{"": {id(first), id(b)}}}))
			})
		})
	}
}

// Before genesis a POST is accepted and its batch is PENDING, and there is no head to read.
func TestBeforeGenesis(t *testing.T) {
	inBubble(t, Options{NoGenesis: true}, func(t *testing.T, n *Node) {
		b := mk(t, call(Set("x", 1)))
		bubbleSubmit(t, n, b)
		time.Sleep(time.Minute)
		is(t, n, b, Pending)
		for path, code := range map[string]int{
			"/blocks": codeNotReady, "/state/" + Address("x"): codeNotReady,
			"/batches/" + b.GetHeaderSignature(): codeBatchNotFound,
		} {
			r, _ := bubbleGet(t, n, path)
			assert.Equal(t, code, r.code(), path)
		}
		n.Genesis()
		time.Sleep(time.Second)
		is(t, n, b, Committed)
		r, _ := bubbleGet(t, n, "/blocks")
		assert.Equal(t, http.StatusOK, r.status)
	})
}

// A dead peer of the event stream ends it for all subscribers. Their connections stay open, and a
// new subscriber gets one block. A restart of the REST API repairs the stream.
func TestDeadPeerEndsEvents(t *testing.T) {
	n := Start(t, fast(Options{}))
	old := dial(t, n)
	old.say(`{"action":"subscribe"}`)
	old.hear()
	commit(t, n, "x", 1)
	assert.Equal(t, "1", old.hear()["block_num"])
	n.BreakEvents()
	commit(t, n, "x", 2)
	commit(t, n, "x", 3)
	fresh := dial(t, n)
	fresh.say(`{"action":"subscribe"}`)
	assert.Equal(t, "1", fresh.hear()["block_num"], "the head of the moment the peer died")
	commit(t, n, "x", 4)
	// No event comes on the open connections: the next message is the answer to a malformed one.
	for _, s := range []*subscriber{old, fresh} {
		s.say("nonsense")
		assert.Equal(t, `Invalid input: "nonsense"`, s.hear()["error"])
	}
	n.Stop()
	require.NoError(t, n.Resume())
	again := dial(t, n)
	again.say(`{"action":"subscribe"}`)
	assert.Equal(t, "4", again.hear()["block_num"])
	commit(t, n, "x", 5)
	assert.Equal(t, "5", again.hear()["block_num"])
	n.KillValidator()
	assert.Equal(t, "Validator unavailable", again.hear()["warning"])
	n.StartValidator()
	commit(t, n, "x", 6)
	assert.Equal(t, "6", again.hear()["block_num"])
}
