package sim

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/pipes"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

var (
	isFullEvidenceRun = flag.Bool("sim.evidence", false, "kill Splinter nodes for ten minutes, with enough circuits for 200 doubts")
	evidenceSeed      = flag.Uint64("sim.evidence.seed", 0, "of the kills; 0 draws one")
)

// TestEvidence kills Splinter nodes that behave as real nodes do, and counts the doubts that are
// settled without a person.
func TestEvidence(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	seed := *evidenceSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	size := evidenceSize{circuitCount: 3, batchesInFlight: 6, killDuration: 90 * time.Second, lateArrival: 60 * time.Second, addInterval: 400 * time.Millisecond}
	if *isFullEvidenceRun {
		size = evidenceSize{circuitCount: 40, batchesInFlight: 12, killDuration: 10 * time.Minute, lateArrival: splinter.DefaultLateArrival, addInterval: 450 * time.Millisecond}
	}
	for _, c := range []struct {
		name   string
		never  bool    // true if states never return
		hidden bool    // true if receipts do not prove either that something is missing
		reads  bool    // true if there is a reader of the state
		least  float64 // the least part of the doubts that must be settled
	}{
		{name: "by the log and receipts alone"},
		{name: "where states never return", never: true, least: 0.95},
		{name: "by the log alone, then", never: true, hidden: true, least: 0.95},
		{name: "with a reader of the state", reads: true, least: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Logf("go test ./internal/sim -run TestEvidence -sim.evidence=%v -sim.evidence.seed=%d", *isFullEvidenceRun, seed)
			synctest.Test(t, func(t *testing.T) {
				var names sync.Map
				size := size
				size.hidesCircuits = c.hidden
				o := splinter.Options{StateNeverReturns: c.never}
				if c.reads {
					o.Evidence = evidenceFromState(&names)
				}
				f := size.killNodes(t, seed, o, &names)
				t.Logf("%+v", f)
				require.NotZero(t, f.Doubts+f.DoubtsOnDivided)
				if *isFullEvidenceRun {
					require.GreaterOrEqual(t, f.Doubts, 200)
				}
				assert.GreaterOrEqual(t, f.SettledDoubts, int(c.least*float64(f.Doubts)+0.999))
			})
		})
	}
}

// evidenceFromState is the evidence of an application that knows the traces of its batches: each
// batch writes a name of its own.
func evidenceFromState(names *sync.Map) func(context.Context, splinter.State, dlt.Doubt) (dlt.Evidence, error) {
	return func(ctx context.Context, s splinter.State, d dlt.Doubt) (dlt.Evidence, error) {
		address, known := names.Load(d.ID)
		if !known {
			return dlt.CannotTell, nil
		}
		_, found, err := s.Get(ctx, address.(string))
		switch {
		case err != nil:
			return dlt.CannotTell, err
		case found:
			return dlt.Committed, nil
		}
		return dlt.NotCommitted, nil
	}
}

type evidenceSize struct {
	circuitCount, batchesInFlight          int
	killDuration, lateArrival, addInterval time.Duration
	hidesCircuits                          bool // nobody can look up the services of a circuit
}

// evidenceFigures are the results. A doubt is an attempt for which the client looked for evidence,
// on a circuit that was not divided.
type evidenceFigures struct {
	Kills, Circuits, Divided, Batches, Committed int
	Doubts, SettledDoubts, SettledCommitted      int
	DoubtsOnDivided                              int // the doubts on divided circuits
	HaltedCircuits                               int // the divided circuits that are reported as halted
}

// evidenceRecorder records the evidence that was found.
type evidenceRecorder struct {
	*splinter.Client
	mu                sync.Mutex
	evidenceByAttempt map[attemptKey]dlt.Evidence
}

type attemptKey struct {
	batch.Key
	attempt int
}

func (w *evidenceRecorder) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	found, err := w.Client.Resolve(ctx, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.evidenceByAttempt[attemptKey{d.Key, d.Number}]; was != dlt.Committed && was != dlt.NotCommitted && found != dlt.InFlight {
		w.evidenceByAttempt[attemptKey{d.Key, d.Number}] = found
	}
	return found, err
}

func (z evidenceSize) killNodes(t *testing.T, seed uint64, o splinter.Options, names *sync.Map) (f evidenceFigures) {
	rng := rand.New(rand.NewPCG(seed, 16))
	wire := &pipes.Net{}
	nodes := splintertest.RealTimes()
	nodes.Addrs, nodes.Listen = []string{"n0.test:80", "n1.test:80"}, wire.Listen
	nodes.Circuits = nil
	nodes.Authorize = func(_ string, op splintertest.Operation) bool {
		return !z.hidesCircuits || op != splintertest.OpCircuit
	}
	var lanes []batch.ServiceID
	for i := range z.circuitCount {
		// The service a000 is the coordinator; it is on either node.
		c := splintertest.Circuit{ID: fmt.Sprintf("aaaaa-%05d", i), Services: []string{"a000", "a001"}}
		if i%2 == 1 {
			slices.Reverse(c.Services)
		}
		nodes.Circuits = append(nodes.Circuits, c)
		lanes = append(lanes, batch.ServiceID(c.ID+"::a000"))
	}
	network, err := splintertest.Listen(nodes)
	require.NoError(t, err)
	defer network.Close()

	st := memory.New()
	transport := &http.Transport{DialContext: wire.Dial}
	defer transport.CloseIdleConnections()
	o.Client, o.Journal, o.LateArrival = &http.Client{Transport: transport}, st, z.lateArrival
	o.Node = func(s batch.ServiceID) string { return network.URL(network.NodeOf(s)) }
	client, err := splinter.New(network.URL(0), &o)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	ledger := &evidenceRecorder{Client: client, evidenceByAttempt: map[attemptKey]dlt.Evidence{}}
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{Strategy: queuer.Pipelined(z.batchesInFlight), PollInterval: 10 * time.Second, StuckAfter: 24 * time.Hour})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { assert.NoError(t, runner.Run(ctx)) })

	key, err := sawtooth.ParsePrivateKey("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
	require.NoError(t, err)
	end := time.Now().Add(z.killDuration)
	var adding sync.WaitGroup
	batches := make([]int, len(lanes))
	for i, lane := range lanes {
		adding.Go(func() { batches[i] = z.addBatches(t, runner, st, key, lane, end, names, seed) })
	}
	time.Sleep(z.killDuration / 6)
	for time.Now().Before(end) {
		f.Kills++
		node := rng.IntN(2)
		network.Kill(node)
		time.Sleep(time.Duration(1000+rng.IntN(9000)) * time.Millisecond)
		require.NoError(t, network.Start(node))
		time.Sleep(z.killDuration/24 + time.Duration(rng.Int64N(int64(z.killDuration/12))))
	}
	adding.Wait()
	for _, n := range batches {
		f.Batches += n
	}
	time.Sleep(z.lateArrival + time.Hour)

	f.Circuits = len(lanes)
	if *printsEvents {
		for _, lane := range lanes {
			_, divided := network.Divided(lane)
			found, err := st.FindStream(t.Context(), "scabbard "+string(lane), nil)
			t.Logf("%s divided %v, log %+v %v", lane, divided, found, err)
			ledger.mu.Lock()
			for d, e := range ledger.evidenceByAttempt {
				if d.Service == lane {
					rec, err := st.Get(t.Context(), d.Key)
					t.Logf("  %.10s attempt %d: %s; %s doubt %v posted %v %v", d.ID, d.attempt, e, rec.State, rec.DoubtSince, rec.CreatedAt, err)
				}
			}
			ledger.mu.Unlock()
		}
	}
	for _, lane := range lanes {
		_, divided := network.Divided(lane)
		control, err := runner.Control(t.Context(), batch.Only(lane))
		require.NoError(t, err)
		if divided {
			f.Divided++
		}
		if control.HaltReason != "" {
			f.HaltedCircuits++
			assert.True(t, divided, "%s is halted, and not divided", lane)
		}
		times := map[batch.ID]int{}
		for _, id := range network.Applied(lane) {
			times[id]++
			f.Committed++
			assert.Equal(t, 1, times[id], "promise 3: %s of %s, divided: %v", id, lane, divided)
		}
		ledger.mu.Lock()
		for d, found := range ledger.evidenceByAttempt {
			switch {
			case d.Service != lane:
			case divided:
				f.DoubtsOnDivided++
			default:
				f.Doubts++
				if found == dlt.Committed || found == dlt.NotCommitted {
					f.SettledDoubts++
				}
				if found == dlt.Committed {
					f.SettledCommitted++
				}
			}
		}
		ledger.mu.Unlock()
	}
	return f
}

// addBatches adds batches to a lane while only few of its batches are open, at its own random
// times. Otherwise all circuits would be in the same step of their commits when a node is killed.
func (z evidenceSize) addBatches(t *testing.T, r *dltbatch.Runner, st *memory.Store, key *sawtooth.PrivateKey,
	lane batch.ServiceID, end time.Time, names *sync.Map, seed uint64,
) (n int) {
	rng := rand.New(rand.NewPCG(seed, uint64(len(lane))+uint64(lane[len("aaaaa-0000")])+10*uint64(lane[len("aaaaa-000")])))
	for time.Now().Before(end) {
		time.Sleep(z.addInterval/2 + time.Duration(rng.Int64N(int64(z.addInterval))))
		open, _, err := st.List(t.Context(), store.ListQuery{Service: &lane, Open: true, Limit: 2 * z.batchesInFlight})
		if assert.NoError(t, err); len(open) >= 2*z.batchesInFlight {
			time.Sleep(10 * time.Second)
			continue
		}
		n++
		name := fmt.Sprint(lane, "-", n)
		payload, address := splintertest.Inc(name, 1)
		b, err := sawtooth.Build(key, lane, sawtooth.Transaction{
			FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion, Nonce: name,
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		assert.NoError(t, err)
		names.Store(b.ID, address)
		assert.NoError(t, r.Add(t.Context(), b))
	}
	return n
}
