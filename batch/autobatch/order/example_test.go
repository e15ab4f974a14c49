package order_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// lines is a Builder of batches with one line for each order. It derives the id from the orders.
type lines struct{}

func (l lines) Build(ctx context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
	return l.BuildRound(ctx, party, orders, 0)
}

func (lines) BuildRound(_ context.Context, party batch.ServiceID, orders []order.Order, round int64) (batch.Batch, error) {
	b := batch.Batch{Service: party}
	id := sha256.New()
	fmt.Fprintf(id, "%q %d", party, round)
	for _, o := range orders {
		if o.Payload[0] == '#' { // no batch can be made of this order, however often it is tried
			return b, &batch.InputError{Field: "Payload", Value: string(o.Payload), Want: "a line that is no comment"}
		}
		fmt.Fprintf(id, " %q", o.ID)
		b.Payload = fmt.Appendf(b.Payload, "%s\n", o.Payload)
	}
	b.ID = batch.ID(fmt.Sprintf("%x", id.Sum(nil)))
	return b, nil
}

// The same orders in the same round are the same batch. If that batch had no effect, the next
// round makes another one.
func ExampleRoundBuilder() {
	var b order.RoundBuilder = lines{}
	ctx, orders := context.Background(), []order.Order{
		{ID: "o1", Party: "Alice", Payload: []byte("5 to Bob")}, {ID: "o2", Party: "Alice", Payload: []byte("7 to Carol")},
	}
	first, err := b.BuildRound(ctx, "Alice", orders, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, _ := b.BuildRound(ctx, "Alice", orders, 0) // after a crash
	next, _ := b.BuildRound(ctx, "Alice", orders, 2)
	fmt.Printf("%s", first.Payload)
	fmt.Println(first.ID == again.ID, first.ID == next.ID)
	// Output:
	// 5 to Bob
	// 7 to Carol
	// true false
}

// A driver reads the row of an order, calls a method for the next one, and writes that if the
// version is still the one that it has read.
func ExampleRow() {
	now, loaded := time.Now(), order.NewRow()
	row, ok := loaded.Dequeue(now, time.Time{}, loaded.Version, "b1", 0)
	fmt.Println(row.State, ok)
	_, ok = row.Settle(now, "b1", order.Verdict{Ref: order.Ref{ID: "o1", Version: loaded.Version}, State: order.Confirmed})
	fmt.Println("by an old version:", ok)
	row, ok = row.Settle(now, "b1", order.Verdict{Ref: order.Ref{ID: "o1", Version: row.Version}, State: order.Confirmed})
	fmt.Println(row.State, ok)
	// Output:
	// dequeued true
	// by an old version: false
	// confirmed true
}
