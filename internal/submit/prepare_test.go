package submit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/submit"
	"github.com/dltbatch/dltbatch/store"
)

// prepareLedger is the ledger's Prepare and the store's Keep in a test.
type prepareLedger struct {
	prepare func(ctx context.Context, b batch.Attempt) ([]byte, error)
	keep    func(ctx context.Context, p store.Prepared) (bool, error)
	asked   []batch.Attempt
	kept    []store.Prepared
}

func (p *prepareLedger) Prepare(ctx context.Context, b batch.Attempt) ([]byte, error) {
	p.asked = append(p.asked, b)
	if p.prepare == nil {
		return []byte("prepared"), nil
	}
	return p.prepare(ctx, b)
}

func (p *prepareLedger) options(o *submit.Options, l *ledger) {
	l.preparer, l.traits.Prepares = p, true
	o.Keep = func(ctx context.Context, kept store.Prepared) (bool, error) {
		p.kept = append(p.kept, kept)
		if p.keep == nil {
			return true, nil
		}
		return p.keep(ctx, kept)
	}
}

// posts posts a run of one claim.
func (r *submitterTest) posts(until time.Duration, c store.Claim) {
	c.Ref.Key = batch.Key{Service: "s", ID: "a"}
	c.Ref.Row, c.Version, c.From, c.Attempt = 7, 5, batch.Delayed, max(1, c.Attempt)
	r.Post(store.ClaimedRun{Service: "s", Batches: []store.Claim{c}}, [][]byte{[]byte("payload")}, time.Now().Add(until))
}

func TestPreparedBeforeTheFirstPost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prepareLedger{}
		var r *submitterTest
		var got []string
		p.keep = func(context.Context, store.Prepared) (bool, error) {
			assert.Empty(t, r.requestsSoFar(), "nothing is posted before it is kept")
			return true, nil
		}
		r = start(t, func(_ context.Context, a batch.Attempt) error {
			got = append(got, string(a.Prepared))
			if len(got) == 1 {
				return dlt.ErrBusy
			}
			return nil
		}, p.options)
		r.posts(farUntil, store.Claim{Budget: batch.Budget{Attempts: 3}})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []batch.Attempt{{Key: batch.Key{Service: "s", ID: "a"}, Number: 1, Payload: []byte("payload")}}, p.asked, "once")
		assert.Equal(t, []store.Prepared{{
			Ref: store.Ref{Key: batch.Key{Service: "s", ID: "a"}, Row: 7}, Version: 5, Bytes: []byte("prepared"),
		}}, p.kept)
		assert.Equal(t, []string{"prepared", "prepared"}, got, "with every try")
		assert.Equal(t, []string{"a accepted"}, r.findings())
		r.stopAndWait()
	})
}

// Bytes that the row keeps are not prepared again, as after a crash between Prepare and the POST
// or during the first POST.
func TestWhatIsKeptIsNotPreparedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prepareLedger{}
		var got []string
		r := start(t, func(_ context.Context, a batch.Attempt) error {
			got = append(got, string(a.Prepared))
			return nil
		}, p.options)
		r.posts(farUntil, store.Claim{Attempt: 2, Doubt: true, Prepared: []byte("kept by the first")})
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, p.asked)
		assert.Empty(t, p.kept)
		assert.Equal(t, []string{"kept by the first"}, got)
		r.stopAndWait()
	})
}

// A ledger that renews is asked before each attempt, and the bytes that it adds are kept before
// the POST.
func TestWhatIsKeptGrows(t *testing.T) {
	for name, c := range map[string]struct {
		renewed string
		isKept  bool
		keeps   bool
		want    string
		posted  []string
	}{
		"more":            {"kept, and more", true, true, "a accepted", []string{"kept, and more"}},
		"the same":        {"kept", true, false, "a accepted", []string{"kept"}},
		"more, too late":  {"kept, and more", false, true, "a unposted", nil},
		"other bytes":     {"Kept, and more", true, false, "a failed", nil},
		"fewer":           {"kep", true, false, "a failed", nil},
		"none":            {"", true, false, "a failed", nil},
		"more than there": {"kept" + strings.Repeat("!", dlt.MaxPrepared), true, false, "a failed", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r *submitterTest
				p := &prepareLedger{
					prepare: func(_ context.Context, a batch.Attempt) ([]byte, error) {
						assert.Equal(t, "kept", string(a.Prepared))
						assert.Equal(t, 2, a.Number)
						a.Prepared[0] = 'X' // a.Prepared is a copy
						return []byte(c.renewed), nil
					},
					keep: func(_ context.Context, p store.Prepared) (bool, error) {
						assert.Empty(t, r.requestsSoFar(), "nothing is posted before it is kept")
						assert.Equal(t, "kept", string(p.Was))
						assert.Equal(t, c.renewed, string(p.Bytes))
						return c.isKept, nil
					},
				}
				var got []string
				r = start(t, func(_ context.Context, a batch.Attempt) error {
					got = append(got, string(a.Prepared))
					return nil
				}, func(o *submit.Options, l *ledger) {
					p.options(o, l)
					l.traits.Renews = true
				})
				r.posts(farUntil, store.Claim{Attempt: 2, Doubt: true, Prepared: []byte("kept"), Was: &store.Row{Version: 5, Prepared: []byte("kept")}})
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, c.posted, got)
				assert.Equal(t, []string{c.want}, r.findings())
				assert.Equal(t, c.keeps, len(p.kept) == 1)
				if c.keeps {
					assert.Nil(t, r.outcomes[0].Was, "it has not what was kept since")
				} else {
					assert.NotNil(t, r.outcomes[0].Was, "the row is as it was claimed")
				}
				r.stopAndWait()
			})
		})
	}
}

func TestNothingIsPostedThatIsNotKept(t *testing.T) {
	broken := errors.New("the store is broken")
	for name, c := range map[string]struct {
		keep func(ctx context.Context, p store.Prepared) (bool, error)
		want string
	}{
		"the row has moved on": {func(context.Context, store.Prepared) (bool, error) { return false, nil }, "a unposted"},
		"an error":             {func(context.Context, store.Prepared) (bool, error) { return false, broken }, "a failed"},
		"an error beside true": {func(context.Context, store.Prepared) (bool, error) { return true, broken }, "a failed"},
		"doubt":                {func(context.Context, store.Prepared) (bool, error) { return true, dlt.ErrDoubt }, "a failed"},
		"it hangs": {func(ctx context.Context, _ store.Prepared) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}, "a failed"},
		"it takes too long": {func(context.Context, store.Prepared) (bool, error) {
			time.Sleep(11 * time.Second)
			return true, nil
		}, "a unposted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &prepareLedger{keep: c.keep}
				r := start(t, accept, p.options)
				r.posts(2*timeout, store.Claim{Spent: 1, Budget: batch.Budget{Attempts: 1, EveryTry: true}})
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Empty(t, r.requestsSoFar())
				assert.Equal(t, []string{c.want}, r.findings())
				assert.Len(t, p.kept, 1)
				assert.True(t, r.outcomes[0].Refund, "nothing was posted")
				assert.Empty(t, r.eventsSoFar(), "it says nothing about the ledger")
				r.stopAndWait()
			})
		})
	}
}

func TestPrepareFails(t *testing.T) {
	wait := func(ctx context.Context, _ batch.Attempt) ([]byte, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("asking: %w", ctx.Err())
	}
	err := func(err error) func(context.Context, batch.Attempt) ([]byte, error) {
		return func(context.Context, batch.Attempt) ([]byte, error) { return []byte("not to be kept"), err }
	}
	for name, c := range map[string]struct {
		prepare  func(context.Context, batch.Attempt) ([]byte, error)
		want     store.Finding
		kind     batch.ErrorKind
		asked    int
		isPaused bool
	}{
		"rejected":      {err(&dlt.Error{Kind: dlt.ErrRejected}), store.Refused, batch.KindRejected, 1, false},
		"busy":          {err(dlt.ErrBusy), store.Failed, batch.KindBusy, 4, true},
		"unavailable":   {err(dlt.ErrUnavailable), store.Failed, batch.KindUnavailable, 4, true},
		"misconfigured": {err(dlt.ErrMisconfigured), store.Failed, batch.KindMisconfigured, 1, true},
		"doubt":         {err(&dlt.Error{Op: "prepare"}), store.Failed, batch.KindUnavailable, 4, true},
		"whatever":      {err(errors.New("whatever")), store.Failed, batch.KindUnavailable, 4, true},
		"two kinds":     {err(errors.Join(dlt.ErrRejected, dlt.ErrBusy)), store.Failed, batch.KindUnavailable, 4, true},
		"it hangs":      {wait, store.Failed, batch.KindUnavailable, 4, true},
		"a panic":       {err(&loop.PanicError{Value: dlt.ErrDoubt}), store.Failed, batch.KindUnavailable, 1, false},
		"too long": {func(context.Context, batch.Attempt) ([]byte, error) {
			return bytes.Repeat([]byte{1}, dlt.MaxPrepared+1), nil
		}, store.Failed, batch.KindMisconfigured, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &prepareLedger{prepare: c.prepare}
				r := start(t, accept, p.options)
				r.posts(farUntil, store.Claim{Spent: 1, Budget: batch.Budget{Attempts: 1, EveryTry: true}})
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				assert.Empty(t, r.requestsSoFar())
				assert.Empty(t, p.kept)
				assert.Len(t, p.asked, c.asked)
				require.Len(t, r.outcomes, 1)
				o := r.outcomes[0]
				assert.Equal(t, c.want, o.Finding)
				assert.Equal(t, c.kind, o.Error.Kind)
				assert.True(t, o.Refund, "nothing was posted")
				assert.False(t, o.Spend)
				assert.Equal(t, c.isPaused, len(r.eventsSoFar()) > 0, "told %v", r.eventsSoFar())
				r.stopAndWait()
			})
		})
	}
}

// A try that was not posted spends nothing, also of a budget of definite failures. A refusal is a
// definite failure.
func TestPrepareRefusesAndSpends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prepareLedger{prepare: func(context.Context, batch.Attempt) ([]byte, error) { return nil, dlt.ErrRejected }}
		r := start(t, accept, p.options)
		r.posts(farUntil, store.Claim{})
		synctest.Wait()
		require.Len(t, r.outcomes, 1)
		assert.True(t, r.outcomes[0].Spend)
		assert.False(t, r.outcomes[0].Refund)
		r.stopAndWait()
	})
}

func TestPrepareAgainAfterBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prepareLedger{}
		p.prepare = func(context.Context, batch.Attempt) ([]byte, error) {
			if len(p.asked) < 3 {
				return nil, dlt.ErrBusy
			}
			return []byte("prepared"), nil
		}
		r := start(t, accept, p.options)
		r.posts(farUntil, store.Claim{})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, p.asked, 3)
		assert.Len(t, p.kept, 1)
		assert.Equal(t, []string{"a accepted"}, r.findings())
		assert.Len(t, r.requestsSoFar(), 1)
		r.stopAndWait()
	})
}

// Prepare takes a part of the claim's time, and the POST needs a whole request timeout of the
// rest.
func TestPrepareIsWithinTheClaim(t *testing.T) {
	for name, c := range map[string]struct {
		takes, until time.Duration
		want         string
		posts        int
	}{
		"enough":   {3 * time.Second, timeout + 3*time.Second, "a accepted", 1},
		"too long": {3*time.Second + 1, timeout + 3*time.Second, "a unposted", 0},
		"no time":  {0, timeout - 1, "a unposted", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &prepareLedger{prepare: func(ctx context.Context, _ batch.Attempt) ([]byte, error) {
					deadline, ok := ctx.Deadline()
					assert.True(t, ok)
					assert.Equal(t, timeout, time.Until(deadline), "a request like others")
					time.Sleep(c.takes)
					return []byte("prepared"), nil
				}}
				r := start(t, accept, p.options)
				r.posts(c.until, store.Claim{})
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, []string{c.want}, r.findings())
				assert.Len(t, r.requestsSoFar(), c.posts)
				assert.Equal(t, c.until >= timeout, len(p.kept) == 1, "for the next attempt, if not for this")
				r.stopAndWait()
			})
		})
	}
}

func TestAStopCutsPrepareOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prepareLedger{prepare: func(ctx context.Context, _ batch.Attempt) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		r := start(t, accept, p.options)
		r.posts(farUntil, store.Claim{})
		synctest.Wait()
		begin := time.Now()
		r.stopAndWait()
		assert.Zero(t, time.Since(begin))
		assert.Equal(t, []string{"a unposted"}, r.findings())
		assert.Empty(t, r.requestsSoFar())
	})
}

// If Prepare returns no bytes, nothing is kept.
func TestPreparedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prepareLedger{prepare: func(context.Context, batch.Attempt) ([]byte, error) { return []byte{}, nil }}
		r := start(t, accept, p.options)
		r.posts(farUntil, store.Claim{})
		synctest.Wait()
		assert.Empty(t, p.kept)
		assert.Equal(t, []string{"a accepted"}, r.findings())
		r.stopAndWait()
	})
}

// Prepare is not called for a service whose traits deny Prepares, even if the client has the
// method.
func TestWhatIsDeniedIsNotPrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prepareLedger{}
		r := start(t, accept, func(o *submit.Options, l *ledger) {
			p.options(o, l)
			l.traits.Prepares = false
		})
		r.posts(farUntil, store.Claim{})
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, p.asked)
		assert.Equal(t, []string{"a accepted"}, r.findings())
		r.stopAndWait()
	})
}

// A ledger that prepares in order gets the bytes of the lane's other batches: those that the claim
// saw, and those that the run has kept since.
func TestPreparedBesideTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prepareLedger{prepare: func(_ context.Context, a batch.Attempt) ([]byte, error) { return []byte("of " + a.ID), nil }}
		var posted [][][]byte
		r := start(t, func(_ context.Context, a batch.Attempt) error {
			posted = append(posted, a.Lane)
			return nil
		}, func(o *submit.Options, l *ledger) {
			p.options(o, l)
			l.traits.PreparesInOrder = true
		})
		run := store.ClaimedRun{Service: "s", Prepared: [][]byte{[]byte("ahead")}}
		for i, id := range []batch.ID{"a", "b"} {
			run.Batches = append(run.Batches, store.Claim{
				Ref: store.Ref{Key: batch.Key{Service: "s", ID: id}, Row: int64(i + 1)}, Version: 5, From: batch.Queued, Attempt: 1,
			})
		}
		r.Post(run, [][]byte{[]byte("1"), []byte("2")}, time.Now().Add(farUntil))
		time.Sleep(time.Minute)
		synctest.Wait()
		want := [][][]byte{{[]byte("ahead")}, {[]byte("ahead"), []byte("of a")}}
		assert.Equal(t, want, posted)
		for i, a := range p.asked {
			assert.Equal(t, want[i], a.Lane)
		}
		r.stopAndWait()
	})
}
