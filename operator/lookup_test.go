package operator_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// batchWithKey is a batch with a caller's key.
func batchWithKey(service batch.ServiceID, id batch.ID, key string) batch.Batch {
	b := newBatch(service, id)
	b.DataChangeID = key
	return b
}

func TestLookup(t *testing.T) {
	inStores(t, func(o *testDesk) {
		long := batch.ID(strings.Repeat("c0ffee", 21) + "00")
		o.add(batchWithKey("payments", long, "invoice 4711"), batchWithKey("refunds", "b", "invoice 4711"), batchWithKey("payments", "c0ffee", "invoice 47"))
		orders := o.st.(order.Store)
		require.NoError(o, orders.AddOrders(o.ctx(),
			order.Order{Party: "parties", ID: "order-1", Key: "invoice 4711", Payload: []byte("p")}, order.Order{Party: "parties", ID: "c0ffee-order", Payload: []byte("p")}))
		gone, err := o.Cancel(o.ctx(), o.readRecord(newBatch("refunds", "b")), ada)
		require.NoError(o, err)

		type hit struct {
			field, name string
			isWhole     bool
		}
		look := func(text string) (hits []hit) {
			o.Helper()
			found, err := o.Lookup(o.ctx(), text, 0)
			require.NoError(o, err)
			assert.False(o, found.More)
			for _, h := range found.Hits {
				hits = append(hits, hit{h.By, h.Name, h.Whole})
				switch h.By {
				case operator.ByLane:
					assert.Equal(o, h.Name, string(*h.Lane))
				case operator.ByOrderID, operator.ByOrderKey:
					assert.Equal(o, batch.ServiceID("parties"), h.Order.Party)
				default:
					assert.NotZero(o, h.Batch.Version)
				}
			}
			return hits
		}
		assert.Equal(o, []hit{{"batch key", "invoice 4711", true}, {"batch key", "invoice 4711", true}, {"order key", "invoice 4711", true}}, look("invoice 4711"))
		assert.Equal(o, []hit{{"batch id", "c0ffee", true}, {"batch id", string(long), false}, {"order id", "c0ffee-order", false}}, look("c0ffee"))
		assert.Equal(o, []hit{{"batch id", string(long), false}}, look(string(long[:12])))
		assert.Equal(o, []hit{{"lane", "parties", false}, {"lane", "payments", false}}, look("pa"))
		assert.Equal(o, []hit{{"lane", "payments", true}}, look("payments"))
		assert.Equal(o, []hit{{"batch id", "b", true}}, look("b"), "it is final")
		assert.Equal(o, batch.Rejected, gone.State)
		for _, none := range []string{"", "C0FFEE", "nvoice", "\xff", "%"} {
			assert.Empty(o, look(none), none)
		}
		tagged := newBatch("payments", "tagged")
		tagged.Tags = batch.Tags{"invoice": "4711", "customer": "9"}
		o.add(tagged)
		for _, text := range []string{"4711", "invoice=4711"} {
			assert.Equal(o, []hit{{"batch tag", "invoice=4711", true}}, look(text))
		}
		assert.Empty(o, look("customer=4711"))
		found, err := o.Lookup(o.ctx(), "invoice", 1)
		require.NoError(o, err)
		assert.True(o, found.More)
	})
}

// A beginning of an id or of a lane's name is enough if only one thing begins with it.
func TestOneThingOfAText(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.add(batchWithKey("payments", "abc1", "key 1"), batchWithKey("payroll", "abc2", "key 2"), batchWithKey("refunds", "abc", "key 2"), newBatch("pay", "x"))
		for text, want := range map[string]batch.ID{"abc": "abc", "abc1": "abc1", "x": "x", "key 1": "abc1"} {
			rec, err := o.Batch(o.ctx(), text)
			require.NoError(o, err, text)
			assert.Equal(o, want, rec.ID)
		}
		for _, none := range []string{"abc3", "key", "pay"} {
			_, err := o.Batch(o.ctx(), none)
			require.ErrorIs(o, err, batch.ErrNotFound, none)
		}
		for text, names := range map[string][]string{"ab": {"abc", "abc1", "abc2"}, "key 2": {"abc2", "abc"}} {
			_, err := o.Batch(o.ctx(), text)
			var ambiguous *operator.AmbiguousError
			require.ErrorAs(o, err, &ambiguous, text)
			require.ErrorIs(o, err, batch.ErrInvalidInput)
			assert.Equal(o, names, ambiguous.Names)
		}

		for text, want := range map[string]batch.ServiceID{"pay": "pay", "paym": "payments", "r": "refunds"} {
			lane, known, err := o.Lane(o.ctx(), text)
			require.NoError(o, err)
			assert.True(o, known)
			assert.Equal(o, want, lane)
		}
		_, known, err := o.Lane(o.ctx(), "pa")
		require.EqualError(o, err, `"pa" is the beginning of more than one lane: pay, payments, payroll; give more of it`)
		assert.False(o, known)
		for _, none := range []string{"payments2", "", "PAY"} {
			lane, known, err := o.Lane(o.ctx(), none)
			require.NoError(o, err)
			assert.False(o, known, none)
			assert.Equal(o, batch.ServiceID(none), lane, "the lane with the name \"\" is not begun by it")
		}
		_, err = o.Pause(o.ctx(), batch.Only("new"), ada)
		require.NoError(o, err)
		knows, err := o.KnowsLane(o.ctx(), "new")
		require.NoError(o, err)
		assert.True(o, knows)
	})
}

// ambiguousStore is a store in which too many ids begin with the same text to list them.
type ambiguousStore struct{ store.Store }

func (h ambiguousStore) Find(ctx context.Context, q store.FindQuery) ([]batch.Record, bool, error) {
	if q.Begins {
		return nil, true, nil
	}
	return h.Store.Find(ctx, q)
}

// A caller's whole key takes precedence over the beginning of an id: a person who gives the key of
// one batch must not act upon another batch.
func TestAWholeKeyAndABeginning(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.add(newBatch("s", "4711f00d"), batchWithKey("s", "b", "4711"), batchWithKey("s", "99beef", "99"), batchWithKey("s", "c", "b"))
		_, err := o.Batch(o.ctx(), "4711")
		var ambiguous *operator.AmbiguousError
		require.ErrorAs(o, err, &ambiguous)
		assert.Equal(o, []string{"b", "4711f00d"}, ambiguous.Names)
		require.EqualError(o, err, `"4711" is the caller's key, or the beginning of the id, of more than one batch: b, 4711f00d; give the whole id`)
		for text, want := range map[string]batch.ID{"99": "99beef", "b": "b", "4711f": "4711f00d"} {
			rec, err := o.Batch(o.ctx(), text)
			require.NoError(o, err, text)
			assert.Equal(o, want, rec.ID)
		}

		d, err := operator.New(ambiguousStore{o.st})
		require.NoError(o, err)
		rec, err := d.Batch(o.ctx(), "4711")
		require.NoError(o, err)
		assert.Equal(o, batch.ID("b"), rec.ID)
		_, err = d.Batch(o.ctx(), "4712")
		require.ErrorIs(o, err, batch.ErrNotFound)
		require.ErrorContains(o, err, "too many ids")
	})
}

// If too many ids begin with the text, no batch is chosen.
func TestTooManyBeginAlike(t *testing.T) {
	inStores(t, func(o *testDesk) {
		o.addLane("s", 30)
		_, err := o.Batch(o.ctx(), "s")
		var ambiguous *operator.AmbiguousError
		require.ErrorAs(o, err, &ambiguous)
		assert.True(o, ambiguous.More)
		assert.Len(o, ambiguous.Names, 10)
		assert.ErrorContains(o, err, "and others")
		_, _, err = o.Find(o.ctx(), store.FindQuery{})
		require.ErrorIs(o, err, batch.ErrInvalidInput)
	})
}
