package autobatch_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// The payload of an order decides what happens to its batch.
const (
	payPayload         = "pay"
	refusedPayload     = "reject"  // the batch is refused on submission
	invalidPayload     = "invalid" // the ledger answers Invalid about the batch
	unbuildablePayload = "unbuildable"
)

// orderBuilder is a Builder of batches whose payload names their orders, in the format of
// dlt/memory.
type orderBuilder struct {
	err func(orders []order.Order) error // returns the error of the Builder; may be nil
}

func (b orderBuilder) Build(ctx context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
	return b.BuildRound(ctx, party, orders, 0)
}

func (b orderBuilder) BuildRound(_ context.Context, party batch.ServiceID, orders []order.Order, round int64) (batch.Batch, error) {
	if b.err != nil {
		if err := b.err(orders); err != nil {
			return batch.Batch{}, err
		}
	}
	verb, ids := payPayload, make([]order.ID, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
		switch p := string(o.Payload); p {
		case unbuildablePayload:
			return batch.Batch{}, fmt.Errorf("build: %w", &batch.InputError{Field: "payload", Want: "something to build of"})
		case refusedPayload, invalidPayload:
			verb = p
		}
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return batch.Batch{}, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", party, round, list))
	return batch.Batch{ID: batch.ID(hex.EncodeToString(sum[:16])), Service: party, Payload: append([]byte(verb+" "), list...)}, nil
}

// checkingLedger is a ledger that records the posted payloads, and checks every POST against the
// store.
type checkingLedger struct {
	*ledgermem.Ledger
	store *memory.Store

	mu       sync.Mutex
	contents map[batch.ID]string
	posts    map[batch.ID]map[int]bool // the posted attempts of each batch
	mistakes []error
}

func newCheckingLedger(st *memory.Store, o *ledgermem.Options) *checkingLedger {
	return &checkingLedger{Ledger: ledgermem.New(o), store: st, contents: map[batch.ID]string{}, posts: map[batch.ID]map[int]bool{}}
}

func (b *checkingLedger) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mistakes = append(b.mistakes, fmt.Errorf(format, args...))
}

func (b *checkingLedger) Submit(ctx context.Context, a batch.Attempt) error {
	rec, err := b.store.Get(ctx, a.Key)
	b.mu.Lock()
	if b.posts[a.ID] == nil {
		b.posts[a.ID] = map[int]bool{}
	}
	b.posts[a.ID][a.Number] = true
	posts, before, known := len(b.posts[a.ID]), b.contents[a.ID], b.contents[a.ID] != ""
	b.contents[a.ID] = string(a.Payload)
	b.mu.Unlock()
	switch {
	case err != nil:
		if ctx.Err() == nil {
			b.fail("%s is posted and not stored: %w", a.Key, err)
		}
	case rec.Attempt < a.Number || rec.Spent < posts:
		b.fail("attempt %d of %s is posted, and %d are counted, %d of %d spent", a.Number, a.Key, rec.Attempt, rec.Spent, posts)
	case known && before != string(a.Payload):
		b.fail("%s is posted with other bytes", a.Key)
	}
	err = b.Ledger.Submit(ctx, a)
	if errors.Is(err, dlt.ErrMisconfigured) { // such an attempt spends nothing
		b.mu.Lock()
		delete(b.posts[a.ID], a.Number)
		b.mu.Unlock()
	}
	return err
}

// submissions returns the number of batches posted.
func (b *checkingLedger) submissions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.posts)
}

// executedOrders returns the executed orders of a party, in order. An order that was executed
// twice occurs twice.
func (b *checkingLedger) executedOrders(party batch.ServiceID) (ids []order.ID) {
	log := b.Log(party)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range log {
		_, list, _ := strings.Cut(b.contents[id], " ")
		var part []order.ID
		if err := json.Unmarshal([]byte(list), &part); err != nil {
			b.mistakes = append(b.mistakes, fmt.Errorf("contents of %s: %w", id, err))
		}
		ids = append(ids, part...)
	}
	return ids
}

func (b *checkingLedger) check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.mistakes...)
}

// unsettledStore is a store that records, for each party, the batches with unsettled orders.
type unsettledStore struct {
	*memory.Store
	books *checkingLedger

	mu        sync.Mutex
	unsettled map[batch.ServiceID]map[batch.ID]bool
}

func (w *unsettledStore) PrepareBatch(ctx context.Context, b batch.Batch, orders []order.Ref) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok, err := w.Store.PrepareBatch(ctx, b, orders)
	if ok {
		if w.unsettled[b.Service] == nil {
			w.unsettled[b.Service] = map[batch.ID]bool{}
		}
		w.unsettled[b.Service][b.ID] = true
		if n := len(w.unsettled[b.Service]); n > 1 {
			w.books.fail("%d batches of %s at a time", n, b.Service)
		}
	}
	return ok, err
}

func (w *unsettledStore) SettleOrders(ctx context.Context, settled []order.Settlement) ([]bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	done, err := w.Store.SettleOrders(ctx, settled)
	for i, ok := range done {
		if ok {
			delete(w.unsettled[settled[i].Batch.Service], settled[i].Batch.ID)
		}
	}
	return done, err
}
