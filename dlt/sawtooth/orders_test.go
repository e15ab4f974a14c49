package sawtooth_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/store/memory"
)

// incrementTransactions turns an order into two transactions that each add 1 to the name in its
// payload.
func incrementTransactions(_ context.Context, o order.Order) ([]sawtooth.Transaction, error) {
	var txs []sawtooth.Transaction
	for range 2 {
		payload, address := sawtoothtest.Inc(string(o.Payload), 1)
		txs = append(txs, sawtooth.Transaction{
			FamilyName: sawtoothtest.IntKey.Name, FamilyVersion: sawtoothtest.IntKey.Version,
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
	}
	return txs, nil
}

func makeOrders(n int, payload string) (orders []order.Order) {
	for i := range n {
		orders = append(orders, order.Order{ID: order.ID("o" + strconv.Itoa(i)), Party: "p", Payload: []byte(payload)})
	}
	return orders
}

func TestOrderBuilderIsDeterministic(t *testing.T) {
	b, err := sawtooth.NewOrderBuilder(mustKey(t, privateKey1), incrementTransactions, nil)
	require.NoError(t, err)
	orders := makeOrders(3, "x")
	build := func(party batch.ServiceID, orders []order.Order, round int64) batch.Batch {
		t.Helper()
		out, err := b.BuildRound(t.Context(), party, orders, round)
		require.NoError(t, err)
		require.NoError(t, sawtooth.Check(out))
		assert.Len(t, out.Transactions, 2*len(orders))
		assert.Equal(t, party, out.Service)
		return out
	}
	first := build("p", orders, 0)
	again, err := b.Build(t.Context(), "p", orders)
	require.NoError(t, err)
	assert.Equal(t, first, again, "byte for byte, as after a crash")
	seen := map[string]bool{}
	for _, other := range []batch.Batch{ // a node answers only for the first batch with a transaction
		first, build("p", orders[:2], 0), build("p", orders, 1), build("p", orders, -1), build("q", orders, 0), build("p", []order.Order{{ID: "other", Payload: []byte("x")}}, 0),
	} {
		for _, tx := range other.Transactions {
			assert.False(t, seen[tx.ID], "a transaction is one batch's alone")
			seen[tx.ID] = true
		}
	}
	assert.NotEqual(t, first.ID, build("p", []order.Order{orders[1], orders[0], orders[2]}, 0).ID)
}

// brokenSigner makes signatures that no node accepts, or returns an error.
type brokenSigner struct {
	*sawtooth.PrivateKey
	t         *testing.T
	err       error
	signCount int
	failsFrom int // the number of the first broken signature
}

func (s *brokenSigner) Sign(m []byte) (string, error) {
	sig, _ := s.PrivateKey.Sign(m)
	if s.signCount++; s.signCount < s.failsFrom {
		return sig, nil
	}
	return highS(s.t, sig), s.err
}

// A fault of the signer is no order's fault: dividing the orders would quarantine all of them.
func TestOrderBuilderNamesTheBadOrder(t *testing.T) {
	noKey := errors.New("the HSM is away")
	for name, c := range map[string]struct {
		signer      sawtooth.Signer
		txs         func(context.Context, order.Order) ([]sawtooth.Transaction, error)
		max         int
		blamesOrder bool  // true if the orders are at fault
		wantError   error // an error that the result wraps
	}{
		"bad signatures":         {signer: &brokenSigner{t: t, PrivateKey: mustKey(t, privateKey1)}, wantError: dlt.ErrMisconfigured},
		"bad signature of batch": {signer: &brokenSigner{t: t, PrivateKey: mustKey(t, privateKey1), failsFrom: 3}, wantError: dlt.ErrMisconfigured},
		"no signature":           {signer: &brokenSigner{t: t, PrivateKey: mustKey(t, privateKey1), err: noKey}, wantError: noKey},
		"an error with no blame": {txs: func(context.Context, order.Order) ([]sawtooth.Transaction, error) { return nil, noKey }, wantError: noKey},
		"an order with no sense": {txs: func(context.Context, order.Order) ([]sawtooth.Transaction, error) {
			return nil, &batch.InputError{Field: "amount"}
		}, blamesOrder: true},
		"no transactions": {txs: func(context.Context, order.Order) ([]sawtooth.Transaction, error) { return nil, nil }, blamesOrder: true},
		"a transaction of nobody": {txs: func(context.Context, order.Order) ([]sawtooth.Transaction, error) {
			return make([]sawtooth.Transaction, 1), nil
		}, blamesOrder: true},
		"too large": {max: 700, blamesOrder: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.signer == nil {
				c.signer = mustKey(t, privateKey1)
			}
			if c.txs == nil {
				c.txs = incrementTransactions
			}
			b, err := sawtooth.NewOrderBuilder(c.signer, c.txs, &sawtooth.OrderBuilderOptions{MaxBody: c.max})
			require.NoError(t, err)
			_, err = b.Build(t.Context(), "p", makeOrders(1, "x"))
			require.Error(t, err)
			assert.Equal(t, c.blamesOrder, errors.Is(err, batch.ErrInvalidInput), "%v", err)
			if c.wantError != nil {
				assert.ErrorIs(t, err, c.wantError)
			}
		})
	}
	_, err := sawtooth.NewOrderBuilder(nil, incrementTransactions, nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput)
	_, err = sawtooth.NewOrderBuilder(mustKey(t, privateKey1), nil, nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput)
	_, err = sawtooth.NewOrderBuilder(badPublicKeySigner{mustKey(t, privateKey1)}, incrementTransactions, nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput, "a key that is none is found at the start")
}

type badPublicKeySigner struct{ *sawtooth.PrivateKey }

func (badPublicKeySigner) PublicKey() string { return "04" }

// Orders are sent to a node by a real client: each order that the node refuses ends alone, and
// each of the others takes effect once.
func TestOrdersOnANode(t *testing.T) {
	n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 5 * time.Millisecond})
	client := newClient(t, n.URL(), &sawtooth.Options{Grace: 50 * time.Millisecond, Settle: 20 * time.Millisecond})
	commitSetting(t, n, client, "x")
	st := memory.New()
	builder, err := sawtooth.NewOrderBuilder(mustKey(t, privateKey1), incrementTransactions, nil)
	require.NoError(t, err)
	var runner *dltbatch.Runner
	engine, err := autobatch.New(st, builder, &autobatch.Options{Wake: func(s batch.ServiceID) { runner.Wake(s) }})
	require.NoError(t, err)
	runner, err = dltbatch.New(st, client, &dltbatch.Options{PollInterval: 20 * time.Millisecond, ScanInterval: 20 * time.Millisecond, Observer: engine})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- runner.Run(ctx) }()
	go func() { done <- engine.Run(ctx) }()

	orders := makeOrders(16, "x")
	orders[5].Payload = []byte("nobody") // a name that was never set
	require.NoError(t, engine.Add(ctx, orders...))
	wait, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	for i, o := range orders {
		rec, err := engine.Await(wait, o.ID)
		require.NoError(t, err)
		want := order.Confirmed
		if i == 5 {
			want = order.Quarantined
		}
		assert.Equal(t, want, rec.State, fmt.Sprint(o.ID, rec.Error))
	}
	value, _ := n.Value("x")
	assert.EqualValues(t, 1+2*15, value, "each of the others once")
	cancel()
	assert.NoError(t, <-done)
	assert.NoError(t, <-done)
}
