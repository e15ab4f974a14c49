package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/store"
)

// Sizes of the producers. In some lanes two producers add at the same time; in these only Adds
// that do not overlap have an order.
const (
	laneCount       = 14
	firstSharedLane = 11 // from this number on, lanes have two producers
	addPause        = 350 * time.Millisecond
	backlog         = 250 // number of open batches from which nothing is added
)

// ackedAdd is an Add, from before its first attempt until it was acknowledged.
type ackedAdd struct {
	batches      []batch.Batch
	began, ended time.Time
	ackedBy      string // the worker that acknowledged it
}

// producer adds through the workers and remembers the acknowledged Adds.
type producer struct {
	world  *world
	signer sawtooth.Signer
	client *http.Client
	stop   context.CancelFunc
	wg     sync.WaitGroup
	isFull atomic.Bool

	mu         sync.Mutex
	acked      []ackedAdd
	nonces     map[batch.ID]usedNonce // of signed transactions
	failedAdds int                    // number of Adds that failed or whose outcome was unknown
	errs       []error
}

// lane returns the service of a lane.
func (w *world) lane(i int) batch.ServiceID {
	if onChain(w.ledgerKind) {
		return batch.ServiceID(payer(i).Address())
	}
	return batch.ServiceID(fmt.Sprintf("lane%02d", i))
}

// backlog returns the number of open batches that is enough. A lane of a chain takes seconds for
// each batch, and has several under way.
func (w *world) backlog() int {
	if onChain(w.ledgerKind) {
		return 3 * laneCount
	}
	return backlog
}

// addPause is the mean pause between the Adds of a producer.
func (w *world) addPause() time.Duration {
	if onChain(w.ledgerKind) {
		return settledDepth * blockInterval / 3
	}
	return addPause
}

func newProducer(w *world) *producer {
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	p := &producer{world: w, signer: key, stop: stop, nonces: map[batch.ID]usedNonce{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: addTimeLimit + 500*time.Millisecond}}
	st := w.store()
	p.wg.Go(func() { p.watch(ctx, st) })
	for lane := range laneCount {
		n := 1
		if lane >= firstSharedLane && w.ledgerKind != evmSigned { // the sender of signed transactions counts the nonces itself
			n = 2
		}
		for i := range n {
			rng := rand.New(rand.NewPCG(*chaosSeed, uint64(lane*2+i)))
			p.wg.Go(func() { p.fillLane(ctx, w.lane(lane), rng) })
		}
	}
	w.t.Cleanup(func() { stop(); p.wg.Wait() })
	return p
}

// end waits until every Add that has begun is acknowledged, and adds nothing more.
func (p *producer) end() []ackedAdd {
	p.stop()
	p.wg.Wait()
	require.NoError(p.world.t, errors.Join(p.errs...))
	return p.acked
}

// watch keeps the backlog from growing as long as there are faults.
func (p *producer) watch(ctx context.Context, st store.Store) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		open, _, err := st.List(ctx, store.ListQuery{Open: true, Limit: backlog})
		p.isFull.Store(err == nil && len(open) >= p.world.backlog())
	}
}

func (p *producer) fillLane(ctx context.Context, lane batch.ServiceID, rng *rand.Rand) {
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rng.Int64N(int64(2 * p.world.addPause())))):
		}
		if p.isFull.Load() {
			continue
		}
		a := ackedAdd{began: time.Now()}
		for range 1 + rng.IntN(3) {
			b, err := p.batch(lane, n, rng)
			if err != nil {
				p.noteError(err)
				return
			}
			a.batches = append(a.batches, b)
			n++
		}
		var err error
		if a.ackedBy, err = p.addUntilAcked(ctx, a.batches, rng); err != nil {
			p.noteError(err)
			return
		}
		a.ended = time.Now()
		p.mu.Lock()
		p.acked = append(p.acked, a)
		p.mu.Unlock()
	}
}

func (p *producer) noteError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}

// addUntilAcked adds the same bytes through one worker after another until one has acknowledged
// them, and returns that worker's name. After the last fault this must not take long.
func (p *producer) addUntilAcked(ctx context.Context, batches []batch.Batch, rng *rand.Rand) (by string, err error) {
	body, err := json.Marshal(batches)
	if err != nil {
		return "", err
	}
	var over time.Time
	for {
		worker := p.world.slots[rng.IntN(len(p.world.slots))].current()
		said, err := p.post(worker.firstLine[0], body)
		if err == nil {
			return worker.name, nil
		}
		if ctx.Err() != nil && over.IsZero() {
			over = time.Now().Add(p.world.restTimeLimit() / 2)
		}
		if !over.IsZero() && time.Now().After(over) {
			return "", fmt.Errorf("add %s: %w", batches[0].Key(), err)
		}
		p.mu.Lock()
		p.failedAdds++
		p.mu.Unlock()
		if bytes.Contains(said, []byte(batch.ErrConflict.Error())) {
			return "", fmt.Errorf("add %s: %w", batches[0].Key(), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *producer) post(url string, body []byte) (said []byte, err error) {
	resp, err := p.client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	said, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %d: %s", resp.StatusCode, said)
	}
	return said, err
}

// The first word of a payload for the unforgiving ledger decides its outcome.
const (
	invalidWord = "invalid"
	rejectWord  = "reject"
)

// batch returns batch n of a lane. Ids do not follow the order of adding.
func (p *producer) batch(lane batch.ServiceID, n int, rng *rand.Rand) (batch.Batch, error) {
	if p.world.ledgerKind == sawtoothNode {
		payload, address := sawtoothtest.Set(string(lane), int64(n))
		return sawtooth.Build(p.signer, lane, sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: fmt.Sprint(rng.Uint64()),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
	}
	if p.world.ledgerKind == evmNode || p.world.ledgerKind == gethNode {
		return newIntent(lane, rng)
	}
	if p.world.ledgerKind == evmSigned {
		b, err := newPayment(lane, uint64(n))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.nonces[b.ID] = usedNonce{lane, uint64(n)}
		return b, err
	}
	word := "fine"
	switch rng.IntN(50) {
	case 0:
		word = invalidWord
	case 1:
		word = rejectWord
	}
	return batch.Batch{
		ID: batch.ID(fmt.Sprintf("%016x", rng.Uint64())), Service: lane,
		Payload: fmt.Appendf(nil, "%s %s %d", word, lane, n),
	}, nil
}
