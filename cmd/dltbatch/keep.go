package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// ordersAnswer is what "orders" prints.
type ordersAnswer struct {
	Orders []order.Record `json:"orders"`
	Next   store.Cursor   `json:"next,omitzero"` // for --after; "" at the end
}

var orderStates = []order.State{order.Queued, order.Dequeued, order.Confirmed, order.Failed, order.Quarantined}

func (a *app) orders() *cobra.Command {
	var q order.ListQuery
	var lane, after string
	var states []string
	c := &cobra.Command{
		Use: "orders [flags]", Short: "Orders of auto-batching by age",
		Long: `Lists orders, the oldest first. Payloads are never shown. The JSON is an object with "orders",
each a order.Record, and "next" for --after.`,
	}
	f := c.Flags()
	f.String("party", "", "only of this `PARTY`")
	f.StringVar(&lane, "batch", "", "only the orders of the batch with this `ID`")
	f.StringSliceVar(&states, "state", nil, "only these states: "+join(orderStates))
	f.IntVar(&q.Limit, "limit", 100, "how many at most, up to 1000")
	f.StringVar(&after, "after", "", "go on from the `CURSOR` of an earlier list")
	completeFlag(c, "state", textsOf(orderStates))
	return a.databasesCommand(c, func(ctx context.Context, all *databases, _ []string) (err error) {
		where, party, err := a.laneOfFlag(ctx, all, c, "party")
		if q.Party = party; err != nil {
			return err
		}
		if f.Changed("batch") {
			if q.Batch, err = where.findBatchID(ctx, lane); err != nil {
				return err
			}
		}
		if q.States, err = parse[order.State](states); err != nil {
			return err
		}
		q.After = store.Cursor(after)
		list, next, err := joinPage(ctx, where, q.Limit, func(a, b order.Record) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) },
			func(o order.Record) store.Cursor { return store.CursorAfter(o.CreatedAt, string(o.ID)) },
			func(ctx context.Context, db *database) ([]order.Record, store.Cursor, error) {
				return db.desk.ListOrders(ctx, q)
			})
		if err != nil {
			return err
		}
		return a.print(ordersAnswer{notNull(list), next}, func(p *page) {
			heads := []string{"PARTY", "ID", "STATE", "BATCH", "BATCHES", "ADDED", "ERROR"}
			keys := slices.ContainsFunc(list, func(o order.Record) bool { return o.Key != "" })
			if keys {
				heads = slices.Insert(heads, 2, "KEY")
			}
			t := p.table(heads...)
			for _, o := range list {
				cells := []any{laneText(o.Party), o.ID, o.State, o.Batch, o.Batches, timeText(o.CreatedAt), errorText(o.Error)}
				if keys {
					cells = slices.Insert(cells, 2, any(o.Key))
				}
				t.row(alarmStyle(o.State == order.Quarantined), cells...)
			}
			t.finish()
			if next != "" {
				p.line("more: --after %s", string(next))
			}
		})
	})
}

// findBatchID returns the id of the batch that a text names. A text that names no batch is
// returned unchanged, because orders may be kept longer than their batch.
func (all *databases) findBatchID(ctx context.Context, text string) (batch.ID, error) {
	_, rec, err := all.findBatch(ctx, text)
	if errors.Is(err, batch.ErrNotFound) {
		return batch.ID(text), nil
	}
	return rec.ID, err
}

func (a *app) export() *cobra.Command {
	var q store.ListQuery
	var states []string
	var ofOrders bool
	c := &cobra.Command{
		Use: "export [flags]", Short: "All batches or orders as JSON lines",
		Long: `Writes a line of JSON for each batch (batch.Record), or with --orders for each order
(order.Record), the oldest first, without payloads. It reads page by page, not at one moment.`,
	}
	f := c.Flags()
	f.BoolVar(&ofOrders, "orders", false, "orders, in place of batches")
	f.String("service", "", "only this `SERVICE`, or party")
	f.StringSliceVar(&states, "state", nil, "only these states")
	return a.databaseCommand(c, func(ctx context.Context, db *database, _ []string) (err error) {
		_, of, err := a.laneOfFlag(ctx, &databases{app: a, list: []*database{db}}, c, "service")
		if err != nil {
			return err
		}
		lines := json.NewEncoder(a.stdout)
		lines.SetEscapeHTML(false)
		const page = 1000
		if ofOrders {
			q := order.ListQuery{Party: of, Limit: page}
			if q.States, err = parse[order.State](states); err != nil {
				return err
			}
			return encodeEach(lines, db.desk.AllOrders(ctx, q))
		}
		if q.States, err = parse[batch.State](states); err != nil {
			return err
		}
		q.Service, q.Limit = of, page
		return encodeEach(lines, db.desk.All(ctx, q))
	})
}

// encodeEach writes one line of JSON for each row.
func encodeEach[T any](lines *json.Encoder, rows iter.Seq2[T, error]) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := lines.Encode(row); err != nil {
			return err
		}
	}
	return nil
}

// pruneAnswer is what "prune" prints.
type pruneAnswer struct {
	Batches   int `json:"batches"`
	Orders    int `json:"orders"`
	StreamIDs int `json:"stream_ids"`
	LaneActs  int `json:"lane_acts"`
}

func (a *app) prune() *cobra.Command {
	var minAge time.Duration
	var yes bool
	c := &cobra.Command{
		Use: "prune [flags]", Short: "Remove old outcomes",
		Long: `Removes batches and orders that have been final for as long as --older-than says, at least an
hour, and acts upon lanes of that age. What is open or in quarantine stays. Running instances do
this by themselves (Options.Retention). The command cannot know which ledgers execute duplicates,
so it keeps the id of each batch: a late Add of the same batch is not sent again. The JSON counts
"batches", "orders", "stream_ids" and "lane_acts".`,
	}
	c.Flags().DurationVar(&minAge, "older-than", 0, "for how long they have been final, such as 720h; required")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for a typed confirmation")
	return a.databaseCommand(c, func(ctx context.Context, db *database, _ []string) error {
		if minAge < time.Hour {
			return fmt.Errorf("%w: give --older-than, an hour or more", errUsage)
		}
		t := &consent{app: a, saidYes: yes}
		if err := t.confirm(ctx, "prune", fmt.Sprintf("What has been final for %s is removed for good.", ageText(minAge)), func(*page) {}); err != nil {
			return err
		}
		q := store.PruneQuery{OlderThan: minAge, Tombstone: func(batch.ServiceID, string) bool { return true }}
		var sum pruneAnswer
		for {
			p, err := db.Store.Prune(ctx, q)
			if err != nil {
				return err
			}
			sum.Batches, sum.Orders, sum.StreamIDs, sum.LaneActs = sum.Batches+p.Batches, sum.Orders+p.Orders, sum.StreamIDs+p.StreamIDs, sum.LaneActs+p.LaneActs
			if !p.More(q) {
				break
			}
		}
		return a.print(sum, func(p *page) {
			p.line("removed %d batches, %d orders, %d ids of streams, %d acts upon lanes", sum.Batches, sum.Orders, sum.StreamIDs, sum.LaneActs)
		})
	})
}
