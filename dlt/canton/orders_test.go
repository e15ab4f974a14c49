package canton_test

import (
	"context"
	"encoding/json"
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
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/store/memory"
)

// transferCommands returns the command of an order, whose payload is a cantontest.Transfer.
func transferCommands(_ context.Context, o order.Order) (canton.OrderCommands, error) {
	var t cantontest.Transfer
	if err := json.Unmarshal(o.Payload, &t); err != nil {
		return canton.OrderCommands{}, &batch.InputError{Field: "Order.Payload", Want: "a transfer", Err: err}
	}
	var doc struct{ Commands []json.RawMessage }
	if err := json.Unmarshal(cantontest.Payload(t), &doc); err != nil {
		return canton.OrderCommands{}, err
	}
	return canton.OrderCommands{Commands: doc.Commands, DisclosedContracts: []json.RawMessage{[]byte(`{"contractId": "00<aa>"}`)}}, nil
}

func orderOf(t testing.TB, id string, tr cantontest.Transfer) order.Order {
	t.Helper()
	payload, err := json.Marshal(tr)
	require.NoError(t, err)
	return order.Order{ID: order.ID(id), Party: "Alice", Payload: payload}
}

func TestOrderBuilderIsDeterministic(t *testing.T) {
	b, err := canton.NewOrderBuilder(transferCommands, &canton.OrderBuilderOptions{SubmissionFields: map[string]json.RawMessage{"workflowId": []byte(`"w"`)}})
	require.NoError(t, err)
	orders := []order.Order{orderOf(t, "o1", cantontest.Transfer{To: "Bob", Amount: 1}), orderOf(t, "o2", cantontest.Transfer{To: "Carol", Amount: 2})}
	build := func(party batch.ServiceID, orders []order.Order, round int64) batch.Batch {
		t.Helper()
		out, err := b.BuildRound(t.Context(), party, orders, round)
		require.NoError(t, err)
		require.Equal(t, party, out.Service)
		return out
	}
	first := build("Alice", orders, 0)
	again, err := b.Build(t.Context(), "Alice", orders)
	require.NoError(t, err)
	assert.Equal(t, first, again, "byte for byte, as after a crash")
	var doc struct {
		Commands, DisclosedContracts []json.RawMessage
		WorkflowID                   string
	}
	require.NoError(t, json.Unmarshal(first.Payload, &doc))
	assert.Len(t, doc.Commands, 2)
	assert.Len(t, doc.DisclosedContracts, 1, "what both need goes out once")
	assert.Contains(t, string(first.Payload), "00<aa>", "nothing is rewritten")
	assert.Equal(t, "w", doc.WorkflowID)
	seen := map[batch.ID]bool{}
	for _, other := range []batch.Batch{
		first, build("Alice", orders, 1), build("Bob", orders, 0), build("Alice", orders[:1], 0), build("Alice", []order.Order{orders[1], orders[0]}, 0),
	} {
		assert.False(t, seen[other.ID])
		seen[other.ID] = true
	}
}

func TestOrderBuilderNamesTheBadOrder(t *testing.T) {
	away := errors.New("the price service is away")
	answer := func(c canton.OrderCommands, err error) func(context.Context, order.Order) (canton.OrderCommands, error) {
		return func(context.Context, order.Order) (canton.OrderCommands, error) { return c, err }
	}
	for name, c := range map[string]struct {
		commands    func(context.Context, order.Order) (canton.OrderCommands, error)
		maxBytes    int
		party       batch.ServiceID
		blamesOrder bool // true if the orders are at fault
	}{
		"an error with no blame": {commands: answer(canton.OrderCommands{}, away)},
		"none":                   {commands: answer(canton.OrderCommands{}, nil), blamesOrder: true},
		"no JSON":                {commands: answer(canton.OrderCommands{Commands: []json.RawMessage{[]byte("{")}}, nil), blamesOrder: true},
		"no command":             {commands: answer(canton.OrderCommands{Commands: []json.RawMessage{[]byte(`{"Sing":{}}`)}}, nil), blamesOrder: true},
		"too large":              {commands: transferCommands, maxBytes: 2100, blamesOrder: true},
		"no party":               {commands: transferCommands, party: "a/b", blamesOrder: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := canton.NewOrderBuilder(c.commands, &canton.OrderBuilderOptions{MaxBody: c.maxBytes})
			require.NoError(t, err)
			if c.party == "" {
				c.party = "Alice"
			}
			_, err = b.Build(t.Context(), c.party, []order.Order{orderOf(t, "o", cantontest.Transfer{To: "Bob", Amount: 1})})
			require.Error(t, err)
			assert.Equal(t, c.blamesOrder, errors.Is(err, batch.ErrInvalidInput), "%v", err)
		})
	}
	for _, fields := range []map[string]json.RawMessage{
		{"commandId": []byte(`"x"`)}, {"commands": []byte(`[]`)}, {"disclosedContracts": []byte(`[]`)}, {"workflowId": []byte(`w`)},
	} {
		_, err := canton.NewOrderBuilder(transferCommands, &canton.OrderBuilderOptions{SubmissionFields: fields})
		require.ErrorIs(t, err, batch.ErrInvalidInput)
	}
	_, err := canton.NewOrderBuilder(nil, nil)
	require.ErrorIs(t, err, batch.ErrInvalidInput)
}

// Orders are sent to a participant by a real client: each order that the participant refuses ends
// alone, and each of the others takes effect once.
func TestOrdersOnAParticipant(t *testing.T) {
	r := newTestClient(t, &cantontest.Options{CompleteAfter: 2 * time.Millisecond}, &canton.Options{
		LateArrival: 100 * time.Millisecond, Grace: 100 * time.Millisecond, IdleWait: 10 * time.Millisecond,
	})
	st := memory.New()
	builder, err := canton.NewOrderBuilder(transferCommands, nil)
	require.NoError(t, err)
	var runner *dltbatch.Runner
	engine, err := autobatch.New(st, builder, &autobatch.Options{Wake: func(s batch.ServiceID) { runner.Wake(s) }})
	require.NoError(t, err)
	runner, err = dltbatch.New(st, r.client, &dltbatch.Options{PollInterval: 20 * time.Millisecond, ScanInterval: 20 * time.Millisecond, Observer: engine})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- runner.Run(ctx) }()
	go func() { done <- engine.Run(ctx) }()

	before := r.participant.Balance("Bob")
	var orders []order.Order
	for i := range 16 {
		tr := cantontest.Transfer{To: "Bob", Amount: 1}
		switch i {
		case 3:
			tr.Poison = cantontest.PoisonSync
		case 9:
			tr.Poison = cantontest.PoisonAsync
		}
		orders = append(orders, orderOf(t, "o"+strconv.Itoa(i), tr))
	}
	require.NoError(t, engine.Add(ctx, orders...))
	wait, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	for i, o := range orders {
		rec, err := engine.Await(wait, o.ID)
		require.NoError(t, err)
		want := order.Confirmed
		if i == 3 || i == 9 {
			want = order.Quarantined
		}
		assert.Equal(t, want, rec.State, fmt.Sprint(o.ID, rec.Error))
	}
	assert.Equal(t, before+14, r.participant.Balance("Bob"), "each of the others once")
	cancel()
	assert.NoError(t, <-done)
	assert.NoError(t, <-done)
}
