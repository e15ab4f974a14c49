package sawtoothtest

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/internal/pb"
)

// faultOnFirstPost returns faults that hit only the first POST of each id.
func faultOnFirstPost(x Fault) *Faults {
	return &Faults{Request: func(p RequestPoint) Fault {
		if p.Operation == OpSubmit && p.Try == 1 {
			return x
		}
		return Fault{}
	}}
}

// The test shows, for each fault, what a client sees over a real socket, and whether the batch was
// accepted.
func TestSubmitFaults(t *testing.T) {
	for _, c := range []struct {
		name       string
		fault      Fault
		status     int // 0 means no complete answer
		code       int
		isAccepted bool
	}{
		{"reset before", Fault{Answer: AnswerReset}, 0, 0, false},
		{"reset after", Fault{Answer: AnswerReset, Acceptance: AcceptedFirst}, 0, 0, true},
		{"late after a reset", Fault{Answer: AnswerReset, Acceptance: AcceptedLate, AcceptAfter: 30 * time.Millisecond}, 0, 0, true},
		{"late after 17", Fault{Answer: AnswerError, Status: 503, Code: 17, Acceptance: AcceptedLate, AcceptAfter: 30 * time.Millisecond}, 503, 17, true},
		{"500 before", Fault{Answer: AnswerError, Status: 500, Code: 10}, 500, 10, false},
		{"500 after", Fault{Answer: AnswerError, Status: 500, Code: 20, Acceptance: AcceptedFirst}, 500, 20, true},
		{"502 of a proxy", Fault{Answer: AnswerError, Status: 502}, 502, 0, false},
		{"504 of a proxy, taken", Fault{Answer: AnswerError, Status: 504, Acceptance: AcceptedFirst}, 504, 0, true},
		{"busy", Fault{Answer: AnswerError, Code: 31}, 429, 31, false},
		{"not sent", Fault{Answer: AnswerError, Code: 19}, 408, 19, false},
		{"truncated", Fault{Answer: AnswerTruncated}, 0, 0, true},
		{"not JSON", Fault{Answer: AnswerNonJSON}, 202, 0, true},
		{"delayed", Fault{Delay: 20 * time.Millisecond}, 202, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := Start(t, fastOptions(Options{Faults: faultOnFirstPost(c.fault)}))
			b := makeBatch(t, intkeyTx(Set("x", 1)))
			r, err := postList(t, n, b)
			if c.status == 0 {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				assert.Equal(t, c.status, r.status)
				assert.Equal(t, c.code, r.code())
			}
			if c.fault.Answer == AnswerNonJSON || (c.fault.Answer == AnswerError && c.code == 0) {
				assert.Nil(t, r.json)
			}
			if c.fault.Acceptance == AcceptedLate {
				assert.Zero(t, countEntries(n, Accepted, b), "not yet")
			}
			if c.isAccepted {
				waitForStatus(t, n, b, Committed)
			} else {
				submitOK(t, n, b)
				assert.Equal(t, 1, countEntries(n, Accepted, b), "the second try was the first that was taken")
			}
			var end Entry
			for _, e := range n.Journal() {
				if e.Kind == PostEnd && e.Request == 1 {
					end = e
				}
			}
			want := c.status
			if c.name == "truncated" {
				want = 202
			}
			assert.Equal(t, want, end.Status)
		})
	}
}

func TestHang(t *testing.T) {
	n := Start(t, fastOptions(Options{Faults: faultOnFirstPost(Fault{Answer: AnswerNever, Acceptance: AcceptedFirst})}))
	b := makeBatch(t, intkeyTx(Set("x", 1)))
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		left <- func() error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL()+"/batches", listBody(t, b))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/octet-stream")
			res, err := n.Client().Do(req)
			if err != nil {
				return err
			}
			return res.Body.Close()
		}()
	}()
	waitForStatus(t, n, b, Committed) // accepted, and still no answer
	assert.Equal(t, 0, countEntries(n, PostEnd, b))
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	require.Eventually(t, func() bool { return countEntries(n, PostEnd, b) == 1 }, 30*time.Second, time.Millisecond)
}

// A client that waits for an answer does not keep a test from closing the node.
func TestCloseEndsWhatHangs(t *testing.T) {
	n, err := Listen(fastOptions(Options{Faults: &Faults{Hang: 1}}))
	require.NoError(t, err)
	left := make(chan error, 1)
	b := makeBatch(t, intkeyTx(Set("x", 1)))
	go func() {
		_, err := postList(t, n, b)
		left <- err
	}()
	require.Eventually(t, func() bool { return countEntries(n, PostStart, b) == 1 }, 30*time.Second, time.Millisecond)
	n.Close()
	require.Error(t, <-left)
	n.Close()
	require.Error(t, n.Resume())
}

func TestStatusFaults(t *testing.T) {
	for name, f := range map[string]*Faults{
		"reset": {StatusReset: 1, MaxPerBatch: 1}, "error": {StatusError: 1, MaxPerBatch: 1},
		"truncated": {StatusTruncated: 1, MaxPerBatch: 1}, "not JSON": {StatusNonJSON: 1, MaxPerBatch: 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := Start(t, fastOptions(Options{Faults: f}))
			b := makeBatch(t, intkeyTx(Set("x", 1)))
			r, err := tryRequest(t, http.MethodGet, n.URL()+"/batch_statuses?id="+b.GetHeaderSignature(), "", nil)
			switch name {
			case "reset", "truncated":
				require.Error(t, err)
			case "error":
				require.NoError(t, err)
				assert.GreaterOrEqual(t, r.status, 500)
			default:
				require.NoError(t, err)
				assert.Nil(t, r.json)
			}
			assert.Equal(t, 0, countEntries(n, StatusAnswered, b), "nobody was told anything")
			is := askStatus(t, n, b) // the second query is beyond MaxPerBatch, so it has no fault
			assert.Equal(t, Unknown, is)
		})
	}
}

func TestLookupFault(t *testing.T) {
	n := Start(t, fastOptions(Options{Faults: &Faults{Request: func(p RequestPoint) Fault {
		if p.Operation == OpLookup {
			return Fault{Answer: AnswerError, Status: 503, Code: 15}
		}
		return Fault{}
	}}}))
	r := sendRequest(t, http.MethodGet, n.URL()+"/batches/"+makeBatch(t, intkeyTx(Set("x", 1))).GetHeaderSignature(), "", nil)
	assert.Equal(t, 15, r.code())
}

// The same seed gives the same faults to the same id and try, in any order of requests, and the
// rates are about right.
func TestFaultsBySeed(t *testing.T) {
	f := &Faults{Seed: 1, Hang: .1, ResetBefore: .1, ResetAfter: .1, ErrorBefore: .1, ErrorAfter: .1, Late: .1, Truncated: .1, NonJSON: .1, Busy: .1, SendFailed: .1, Latency: .5}
	require.NoError(t, f.check())
	other := *f
	other.Seed = 2
	const count = 5000
	ids := make([]batch.ID, count)
	for i := range ids {
		ids[i] = batch.ID(time.Duration(i).String())
	}
	ask := func(f *Faults, i int) Fault {
		return f.drawRequest(RequestPoint{Operation: OpSubmit, Batches: ids[i : i+1], Try: i%3 + 1})
	}
	forward := make([]Fault, count)
	differ, delayed := 0, 0
	answers := map[Answer]int{}
	taken := map[Acceptance]int{}
	for i := range ids {
		forward[i] = ask(f, i)
		answers[forward[i].Answer]++
		taken[forward[i].Acceptance]++
		if forward[i].Delay > 0 {
			delayed++
		}
		if ask(&other, i) != forward[i] {
			differ++
		}
	}
	for i := count - 1; i >= 0; i-- {
		require.Equal(t, forward[i], ask(f, i))
	}
	assert.Greater(t, differ, count/2)
	assert.InDelta(t, count/2, delayed, count/20)
	assert.InDelta(t, count/10, answers[AnswerNever], count/50)
	assert.InDelta(t, count/4, answers[AnswerReset], count/40) // ResetBefore, ResetAfter and half of Late
	assert.InDelta(t, count*45/100, answers[AnswerError], count/40)
	assert.InDelta(t, count/4, taken[AcceptedFirst], count/40) // ResetAfter, ErrorAfter and half of Hang
	assert.InDelta(t, count/10, taken[AcceptedLate], count/50)
	assert.Zero(t, answers[AnswerProperly])
}

// With all faults at once, a client that only sends again gets every batch committed once, and in
// order if each batch waits for the one before.
func TestAllFaultsTogether(t *testing.T) {
	f := &Faults{
		Seed: 7, ResetBefore: .1, ResetAfter: .1, ErrorBefore: .1, ErrorAfter: .1, Late: .1, Truncated: .1, NonJSON: .05, Busy: .05, SendFailed: .05,
		StatusReset: .05, StatusError: .05, StatusTruncated: .05, StatusNonJSON: .05, Latency: .2,
		MaxLatency: 2 * time.Millisecond, MaxLateDelay: 5 * time.Millisecond, LatePending: .2, LatePendingDelay: 5 * time.Millisecond, FalseInvalid: .2, Reexecute: .1,
	}
	n := Start(t, &Options{BlockInterval: 3 * time.Millisecond, Faults: f, CacheTime: 20 * time.Millisecond})
	var want []batch.ID
	for i := range 40 {
		b := makeBatch(t, intkeyTx(Set("x", int64(i))))
		want = append(want, batchID(b))
		require.Eventually(t, func() bool {
			if n.Status(batchID(b)) == Unknown {
				_, _ = postList(t, n, b) // any answer will do
			}
			return n.Status(batchID(b)) == Committed
		}, 10*time.Second, time.Millisecond)
	}
	require.NoError(t, n.Check(Expectation{Order: map[string][]batch.ID{"": want}}))
	assert.Len(t, n.History("x"), len(want))
	posts := 0
	for _, e := range n.Journal() {
		if e.Kind == PostStart {
			posts++
		}
	}
	assert.Greater(t, posts, len(want), "the faults made it send again")
}

// Eight lanes at once pass Check, with faults, restarts, and a listener that stops and starts.
func TestConcurrentLanes(t *testing.T) {
	want := map[string][]batch.ID{}
	lanes := map[batch.ID]string{}
	lists := map[string][]*pb.Batch{}
	for _, lane := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		for i := range 10 {
			b := makeBatch(t, intkeyTx(Set(lane, int64(i))))
			lists[lane] = append(lists[lane], b)
			want[lane], lanes[batchID(b)] = append(want[lane], batchID(b)), lane
		}
	}
	runInBubble(t, Options{BlockInterval: 3 * time.Millisecond, CacheTime: 30 * time.Millisecond, Faults: &Faults{
		Seed: 11, ResetBefore: .1, ResetAfter: .1, ErrorAfter: .1, Late: .1, Truncated: .1, Latency: .3,
		MaxLatency: 2 * time.Millisecond, MaxLateDelay: 3 * time.Millisecond, StatusReset: .1, Overtake: .5,
	}}, func(t *testing.T, n *Node) {
		done := make(chan struct{})
		var wg sync.WaitGroup
		for _, list := range lists {
			wg.Go(func() {
				for _, b := range list {
					for n.Status(batchID(b)) != Committed {
						if n.Status(batchID(b)) == Unknown {
							body := bytes.NewReader(marshal(t, &pb.BatchList{Batches: []*pb.Batch{b}}))
							if res, err := n.Client().Post("http://x/batches", "application/octet-stream", body); err == nil {
								_ = res.Body.Close() // any answer will do
							}
						}
						select {
						case <-time.After(time.Millisecond):
						case <-t.Context().Done():
							return
						}
					}
				}
			})
		}
		go func() { wg.Wait(); close(done) }()
		for i := 0; ; i++ {
			select {
			case <-done:
				require.NoError(t, n.Check(Expectation{Lane: func(id batch.ID) string { return lanes[id] }, Order: want}))
				assert.Positive(t, i, "restarted at least once")
				return
			case <-time.After(20 * time.Millisecond):
				n.Restart()
				n.Stop()
				require.NoError(t, n.Resume())
			}
		}
	})
}

func TestWrongOptions(t *testing.T) {
	for name, f := range map[string]*Faults{
		"negative": {Busy: -.1}, "too much": {Busy: .6, Hang: .6}, "latency": {Latency: 1.1}, "statuses": {StatusHang: .6, StatusError: .6},
	} {
		_, err := Listen(&Options{Faults: f})
		require.Error(t, err, name)
		assert.Panics(t, func() { NewNode(&Options{Faults: f}) }, name)
	}
	for _, o := range []Options{{CacheTime: -1}, {PoolLimit: -1}, {StartTime: -1}} {
		_, err := Listen(&o)
		require.Error(t, err, "%+v", o)
	}
}
