package cantontest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// commandOf returns the command of an order, whose payload is a transfer.
func commandOf(_ context.Context, o order.Order) (canton.OrderCommands, error) {
	var t cantontest.Transfer
	if err := json.Unmarshal(o.Payload, &t); err != nil {
		return canton.OrderCommands{}, err
	}
	var doc struct{ Commands []json.RawMessage }
	if err := json.Unmarshal(cantontest.Payload(t), &doc); err != nil {
		return canton.OrderCommands{}, err
	}
	return canton.OrderCommands{Commands: doc.Commands}, nil
}

// orderOf returns an order that pays a party whom no other order pays, so that the party's balance
// shows how often it was paid.
func orderOf(id string, party batch.ServiceID, poison cantontest.Poison) order.Order {
	b, err := json.Marshal(cantontest.Transfer{To: "To-" + id, Amount: 1, Poison: poison})
	if err != nil {
		panic(err) // cannot fail for strings and a number
	}
	return order.Order{ID: order.ID(id), Party: party, Payload: b}
}

func paidTo(p *cantontest.Participant, id order.ID) int64 {
	return p.Balance("To-"+string(id)) - 1_000_000
}

var errDead = errors.New("this process is dead")

// killableStore is the store of a process. Once dead is true, no call reaches it.
type killableStore struct {
	*memory.Store
	isDead atomic.Bool
}

func (m *killableStore) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	if m.isDead.Load() {
		return nil, errDead
	}
	return m.Store.Record(ctx, o)
}

func (m *killableStore) SettleOrders(ctx context.Context, s []order.Settlement) ([]bool, error) {
	if m.isDead.Load() {
		return nil, errDead
	}
	return m.Store.SettleOrders(ctx, s)
}

// killingClient is a client that kills its process at the first POST.
type killingClient struct {
	*canton.Client
	killProcess func()
}

func (d killingClient) Submit(ctx context.Context, a batch.Attempt) error {
	err := d.Client.Submit(ctx, a)
	d.killProcess()
	return err
}

// runningProcess is one process with a Runner and an Engine.
type runningProcess struct {
	*autobatch.Engine
	stop       context.CancelFunc
	goroutines sync.WaitGroup
}

func (a *runningProcess) stopAndWait() {
	a.stop()
	a.goroutines.Wait()
}

// waitForOrders waits until the orders are confirmed, and requires that each was paid once.
func (a *runningProcess) waitForOrders(t *testing.T, p *cantontest.Participant, orders ...order.Order) (out []order.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, o := range orders {
		rec, err := a.Await(ctx, o.ID)
		require.NoError(t, err)
		require.Equal(t, order.Confirmed, rec.State, "%+v", rec)
		require.EqualValues(t, 1, paidTo(p, o.ID), "%+v", rec)
		out = append(out, rec)
	}
	return out
}

// startParticipant returns a participant without a socket.
func startParticipant(t *testing.T, o *cantontest.Options) *cantontest.Participant {
	t.Helper()
	p, err := cantontest.NewParticipant(o)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// startProcess starts a process. If dies is true, it dies at its first POST.
func startProcess(t *testing.T, p *cantontest.Participant, st *memory.Store, o canton.Options, dies bool, change ...func(*autobatch.Options)) *runningProcess {
	t.Helper()
	o.UserID, o.PollOnly, o.Client = "app", true, p.Client()
	client, err := canton.New("http://participant", &o)
	require.NoError(t, err)
	builder, err := canton.NewOrderBuilder(commandOf, nil)
	require.NoError(t, err)
	m := &killableStore{Store: st}
	ctx, stop := context.WithCancel(context.Background())
	a := &runningProcess{stop: stop}
	var runner *dltbatch.Runner
	ao := autobatch.Options{MaxSize: 256, Wake: func(s batch.ServiceID) { runner.Wake(s) }}
	for _, c := range change {
		c(&ao)
	}
	a.Engine, err = autobatch.New(m, builder, &ao)
	require.NoError(t, err)
	d := killingClient{client, func() {
		if dies {
			m.isDead.Store(true)
			stop()
		}
	}}
	runner, err = dltbatch.New(m, d, &dltbatch.Options{Observer: a.Engine})
	require.NoError(t, err)
	a.goroutines.Go(func() {
		if err := runner.Run(ctx); !dies {
			assert.NoError(t, err)
		}
	})
	a.goroutines.Go(func() { assert.NoError(t, a.Run(ctx)) })
	return a
}

// TestDowntime: a process dies at the POST of its orders, and no process runs for longer than the
// participant deduplicates. Whatever the outcome of the batch is, and whether or not its
// completion was pruned, nothing is sent again unless it is certain that the batch has not taken
// effect and never will, or a person has decided so. No order is paid twice.
func TestDowntime(t *testing.T) {
	tier.Plain(t)
	type outcomeCase struct {
		name   string
		fault  cantontest.Fault
		isPaid bool // true if the batch took effect
	}
	fates := []outcomeCase{
		{name: "never arrived", fault: cantontest.Fault{Answer: cantontest.AnswerReset}},
		{name: "executed", fault: cantontest.Fault{}, isPaid: true},
		{name: "executed, and the answer is lost", fault: cantontest.Fault{Answer: cantontest.AnswerTimeout, Accept: true}, isPaid: true},
		{name: "rejected", fault: cantontest.Fault{Reject: "INCONSISTENT"}},
		{name: "rejected, and may be tried again", fault: cantontest.Fault{Reject: "LOCAL_VERDICT_LOCKED_CONTRACTS"}},
		{name: "forgotten by the participant", fault: cantontest.Fault{Lose: true}},
	}
	for _, f := range fates {
		for _, pruned := range []bool{false, true} {
			for _, decided := range []time.Duration{0, time.Minute} {
				t.Run(fmt.Sprintf("%s, pruned %t, decided within %s", f.name, pruned, decided), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { runDowntime(t, f.fault, f.isPaid, pruned, decided) })
				})
			}
		}
	}
}

func runDowntime(t *testing.T, fault cantontest.Fault, isPaid, pruned bool, decided time.Duration) {
	p := startParticipant(t, &cantontest.Options{Fault: func(at cantontest.RequestPoint) cantontest.Fault {
		if at.Operation == cantontest.OpSubmit {
			return fault
		}
		return cantontest.Fault{}
	}})
	st := memory.New()
	o := canton.Options{DecidedWithin: decided}
	orders := []order.Order{orderOf("a", "Alice", ""), orderOf("b", "Alice", ""), orderOf("c", "Alice", "")}
	first := startProcess(t, p, st, o, true)
	require.NoError(t, first.Add(t.Context(), orders...))
	first.goroutines.Wait()
	first.stop()
	journal := p.Journal()
	require.Equal(t, cantontest.Posted, journal[0].Kind)
	key := batch.Key{Service: "Alice", ID: batch.ID(journal[0].CommandID)}

	time.Sleep(canton.DefaultDeduplicationPeriod + 24*time.Hour)
	if pruned {
		p.Advance(5)
		p.Prune(p.LedgerEnd())
	}
	p.SetFault(nil)
	next := startProcess(t, p, st, o, false)
	defer next.stopAndWait()
	known := !pruned && (isPaid || fault.Reject != "") // the completion says so
	sure := known || (decided > 0 && !pruned)
	time.Sleep(15 * time.Minute) // a new process waits ten minutes for a ledger that does not answer
	rec, err := st.Get(t.Context(), key)
	require.NoError(t, err)
	if !sure {
		require.Equal(t, batch.Submitting, rec.State, "%+v", rec)
		require.NotEmpty(t, rec.Decision)
		require.Equal(t, 1, p.Count(cantontest.Posted, string(key.ID)), "not again, past the period")
		open, _, err := st.ListOrders(t.Context(), order.ListQuery{States: []order.State{order.Dequeued}})
		require.NoError(t, err)
		require.Len(t, open, len(orders), "nobody lets them go")
		ruling := batch.NotExecutedSendAgain
		if isPaid {
			ruling = batch.WasCommitted
		}
		_, err = st.Decide(t.Context(), rec, ruling, batch.By{Actor: "test", Reason: "looked at the participant"})
		require.NoError(t, err)
	} else {
		require.Empty(t, rec.Decision, "%+v", rec)
	}
	next.waitForOrders(t, p, orders...)
	require.NoError(t, p.Check(nil))
	if !sure && !isPaid {
		assert.Equal(t, 2, p.Count(cantontest.Posted, string(key.ID)), "once more, as the person said")
	}
}

// When a person gives a batch in doubt up, its orders end, and stay ended.
func TestOrdersOfARejectedDoubtStayEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startParticipant(t, &cantontest.Options{Fault: func(at cantontest.RequestPoint) cantontest.Fault {
			return cantontest.Fault{Lose: at.Operation == cantontest.OpSubmit}
		}})
		st := memory.New()
		first := startProcess(t, p, st, canton.Options{}, true)
		require.NoError(t, first.Add(t.Context(), orderOf("a", "Alice", "")))
		first.goroutines.Wait()
		first.stop()
		time.Sleep(8 * 24 * time.Hour)
		next := startProcess(t, p, st, canton.Options{}, false)
		defer next.stopAndWait()
		b := orderOf("b", "Alice", "")
		require.NoError(t, next.Add(t.Context(), b))
		time.Sleep(4 * time.Minute)
		key := batch.Key{Service: "Alice", ID: batch.ID(p.Journal()[0].CommandID)}
		seen, err := st.Get(t.Context(), key)
		require.NoError(t, err)
		_, err = st.Decide(t.Context(), seen, batch.NotExecutedReject, batch.By{Actor: "test", Reason: "not worth it"})
		require.NoError(t, err)
		p.SetFault(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		given, err := next.Await(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, order.Failed, given.State)
		assert.Equal(t, batch.KindCancelled, given.Error.Kind)
		next.waitForOrders(t, p, b) // the party's later orders go on
		assert.Zero(t, paidTo(p, "a"))
	})
}

// TestRefusedAfterADoubt: the first POST of some orders is lost, and the second attempt is
// rejected. The rejection is evidence about the first attempt, too: no person has to decide.
func TestRefusedAfterADoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startParticipant(t, &cantontest.Options{Fault: func(at cantontest.RequestPoint) cantontest.Fault {
			if at.Operation == cantontest.OpSubmit && at.Try == 1 {
				return cantontest.Fault{Answer: cantontest.AnswerTimeout}
			}
			return cantontest.Fault{}
		}})
		st := memory.New()
		a := startProcess(t, p, st, canton.Options{}, false)
		defer a.stopAndWait()
		l := newPartyOrders("Alice", 8, 2, cantontest.PoisonAsync, 1)
		require.NoError(t, a.Add(t.Context(), l.orders...))
		l.check(t, p, st, a.Await)
		require.NoError(t, p.Check(nil))
	})
}

// TestNothingIsReleasedInDoubt: a submission whose answer is lost takes effect ten minutes later.
// Whatever happens in between, its orders are not put into another batch.
func TestNothingIsReleasedInDoubt(t *testing.T) {
	slow := cantontest.Fault{Answer: cantontest.AnswerTimeout, Accept: true, CompleteAfter: 10 * time.Minute}
	for name, c := range map[string]struct {
		attempts    int
		secondFault cantontest.Fault // the fault of the second attempt
	}{
		"its budget is used up":                                       {attempts: 1},
		"it is refused when tried again":                              {secondFault: cantontest.Fault{Answer: cantontest.AnswerError, Error: "DAML_FAILURE"}},
		"it is in flight when tried again, and its budget is used up": {attempts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := startParticipant(t, &cantontest.Options{Fault: func(at cantontest.RequestPoint) cantontest.Fault {
					switch {
					case at.Operation != cantontest.OpSubmit:
						return cantontest.Fault{}
					case at.Try == 1:
						return slow
					}
					return c.secondFault
				}})
				st := memory.New()
				a := startProcess(t, p, st, canton.Options{}, false, func(o *autobatch.Options) { o.MaxAttempts = c.attempts })
				defer a.stopAndWait()
				orders := []order.Order{orderOf("a", "Alice", ""), orderOf("b", "Alice", "")}
				require.NoError(t, a.Add(t.Context(), orders...))
				time.Sleep(8 * time.Minute)
				open, _, err := st.List(t.Context(), store.ListQuery{Open: true})
				require.NoError(t, err)
				require.Len(t, open, 1)
				require.NotEmpty(t, open[0].Decision, "it says that it waits")
				for _, rec := range a.waitForOrders(t, p, orders...) {
					assert.Equal(t, 1, rec.Batches)
				}
			})
		})
	}
}
