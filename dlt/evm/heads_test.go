package evm_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// scriptHeads makes the script answer questions for the last block with these numbers, one after
// the other.
func scriptHeads(s *scriptedNode, numbers ...string) {
	s.setAnswer("eth_blockNumber", func([]any) (any, string) {
		head := numbers[0]
		if len(numbers) > 1 {
			numbers = numbers[1:]
		}
		return head, ""
	})
}

var errEnough = errors.New("enough")

// Each higher number of the last block is one event. The lower number of a backend that is behind
// is none, even if it comes again and again.
func TestEachNewBlockIsAnEvent(t *testing.T) {
	s, url := newScriptedNode(t)
	asked := 0
	numbers := []string{"0x9", "0x9", "0xb", "0x8", "0xa", "0xb", "0xc"}
	s.setAnswer("eth_blockNumber", func([]any) (any, string) {
		asked++
		return numbers[asked-1], ""
	})
	var events []dlt.Event
	var requestCounts []int
	err := newTestClient(t, url, &evm.Options{HeadInterval: time.Millisecond}).Events(t.Context(), nil, func(e dlt.Event) error {
		events, requestCounts = append(events, e), append(requestCounts, asked)
		if len(events) == 3 {
			return errEnough
		}
		return nil
	})
	require.ErrorIs(t, err, errEnough)
	assert.Equal(t, []dlt.Event{{Live: true}, {}, {}}, events)
	assert.Equal(t, []int{1, 3, 7}, requestCounts)
}

// When a node fails, the next node is asked for the head. When no node is left, the stream ends
// with an error that shows no key.
func TestTheStreamOfHeadsEnds(t *testing.T) {
	s, url := newScriptedNode(t)
	scriptHeads(s, "0x1")
	const secret = "abcdef0123456789"
	c := newTestClient(t, "http://127.0.0.1:1/"+secret, &evm.Options{HeadInterval: time.Millisecond, Fallbacks: []string{url}})
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, c.Events(ctx, nil, func(e dlt.Event) error {
		assert.True(t, e.Live)
		stop()
		return nil
	}))
	for name, refuse := range map[string]func(){
		"a refusal": func() {
			s.setAnswer("eth_blockNumber", func([]any) (any, string) { return nil, "rate limit of " + secret })
		},
		"no number": func() { scriptHeads(s, "twelve") },
	} {
		refuse()
		err := c.Events(t.Context(), nil, func(dlt.Event) error { return errors.New("an event") })
		require.Error(t, err, name)
		var typed *dlt.Error
		require.ErrorAs(t, err, &typed, name)
		assert.NotContains(t, err.Error(), secret, name)
	}
	assert.False(t, newTestClient(t, url, nil).Traits("").Streams, "only where it is wanted")
	assert.True(t, c.Traits("").Streams)
}

// With HeadInterval a payment is committed soon after the block that makes its own block deep,
// with a few questions for each payment. When the stream breaks, the regular polls go on.
func TestHeadsCauseQuestions(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Anvil, SlotsInAnEpoch: 1, BlockTime: 12 * time.Second})
		p := s.startRunner(evm.Options{Finality: evm.After(2), HeadInterval: 250 * time.Millisecond})
		from := s.newAccount()
		b, next := s.newPayment(from, 0, 1), s.newPayment(from, 1, 1)
		p.add(b)
		s.timeUnit = time.Millisecond
		p.waitForState(b, batch.Pending)
		for s.node.Blocks()[len(s.node.Blocks())-1].Number < 3 {
			time.Sleep(s.timeUnit)
		}
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, batch.Committed, p.record(b).State, "two blocks after its own")
		s.setFault(func(p evmtest.RequestPoint) evmtest.Fault {
			if p.Method == "eth_blockNumber" {
				return evmtest.Fault{Answer: evmtest.AnswerReset}
			}
			return evmtest.Fault{}
		})
		p.add(next)
		s.timeUnit = time.Second
		p.waitForState(next, batch.Committed)
	})
}

// Questions for the last block save requests with many payments under way, and cost requests with
// few. So they are off by default. docs/evm.md#a-lane-is-an-account has the figures.
func TestHeadsCostLessThanPolling(t *testing.T) {
	tier.Plain(t)
	type load struct {
		block time.Duration
		each  int           // payments of each of ten accounts
		gap   time.Duration // between two payments of an account
	}
	type cost struct{ requests, calls float64 } // what one payment costs
	measured := func(l load, heads time.Duration) (c cost) {
		synctest.Test(t, func(t *testing.T) {
			var requests, calls atomic.Int64
			s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, BlockTime: l.block, SlotsInAnEpoch: 1, Faults: &evmtest.Faults{
				Request: func(p evmtest.RequestPoint) evmtest.Fault {
					requests.Add(1)
					calls.Add(int64(p.Requests))
					return evmtest.Fault{}
				},
			}})
			time.Sleep(5*l.block + 370*time.Millisecond)
			var from []evmtest.Account
			for range 10 {
				from = append(from, s.newAccount())
			}
			p := s.startRunner(evm.Options{Finality: evm.After(2), HeadInterval: heads})
			var all []batch.Batch
			for n := range l.each {
				for _, a := range from {
					all = append(all, s.newPayment(a, uint64(n), 1))
				}
				p.add(all[len(all)-len(from):]...)
				time.Sleep(l.gap)
			}
			for _, b := range all {
				_, err := p.Await(t.Context(), b.Key())
				require.NoError(t, err)
				require.Equal(t, batch.Committed, p.record(b).State)
			}
			c = cost{float64(requests.Load()) / float64(len(all)), float64(calls.Load()) / float64(len(all))}
		})
		return c
	}
	for _, block := range []time.Duration{2 * time.Second, 12 * time.Second} {
		few, many := load{block, 3, 100 * time.Second}, load{block, 30, 0}
		for name, l := range map[string]load{"10 each 100 s": few, "300 at once": many} {
			off, on := measured(l, 0), measured(l, block/4)
			t.Logf("a block each %s, %s: requests and calls of a payment %.1f without, %.1f with", block, name, off, on)
			if l == few {
				assert.Less(t, off.requests, on.requests)
			} else {
				// The numbers are about equal. The scheduler decides which batches are asked about
				// together: 1.3 times as many calls were seen.
				assert.Less(t, on.calls, 1.5*off.calls+1)
			}
		}
	}
}
