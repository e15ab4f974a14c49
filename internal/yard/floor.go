package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The floor shows what the machine can do: the same durable steps without any library and without
// its promises. All steps overlap, and each writing step writes many rows at once. Any error ends
// the floor.
const (
	floorRows        = 500                  // in a statement, at most
	floorGroupWait   = 2 * time.Millisecond // longest wait before a statement that is not full is sent
	floorWorkers     = 32
	floorPollers     = 2
	floorIDsPerQuery = 100 // ids in a query
	floorGOGC        = 400
)

// floorRow is a batch in the floor's tables. The states are 0 added, 1 claimed, 2 accepted
// and 3 committed.
type floorRow struct {
	seq      int64
	id, lane string
	payload  []byte
}

// floorTables holds the floor's rows. Each of its functions is called by one goroutine; the
// goroutines run at the same time.
type floorTables struct {
	add        func(rows []floorRow)
	claim      func(after int64) []*floorRow // the next rows, with payloads
	accepted   func(rows []*floorRow)
	committed  func(rows []*floorRow)
	countFinal func() int
	close      func()
}

func runFloor(ctx context.Context, j job, w *work, m *meter, r *result) error {
	ctx = context.WithoutCancel(ctx) // a cancellable context has a cost for each request and statement
	d, err := openDatabase(ctx, j)
	if err != nil {
		return err
	}
	defer d.close()
	open := floorPostgres
	if j.onSQLite() {
		open = floorSQLite
	}
	tables, err := open(ctx, d)
	if err != nil {
		return err
	}
	defer tables.close()
	c := newClient(j.Ledger, 1024)
	defer c.close()
	if err := d.settleTables(ctx); err != nil {
		return err
	}
	if err := d.startMeasuring(ctx, m); err != nil {
		return err
	}
	runFloorSteps(ctx, j, w, c, tables)
	if err := d.stopMeasuring(ctx, m, r, j.Batches); err != nil {
		return err
	}
	if n := tables.countFinal(); n != j.Batches {
		return fmt.Errorf("%d of %d are committed", n, j.Batches)
	}
	return nil
}

func runFloorSteps(ctx context.Context, j job, w *work, c *client, t *floorTables) {
	added := make(chan int, j.Batches)
	go func() {
		defer close(added)
		rows := make([]floorRow, 0, floorRows)
		for from := 0; from < j.Batches; from += floorRows {
			rows = rows[:0]
			for i := from; i < min(from+floorRows, j.Batches); i++ {
				b := &w.batches[i]
				rows = append(rows, floorRow{int64(i + 1), string(b.ID), string(b.Service), b.Payload})
				w.momentsByBatch[i].added = w.sinceBegin()
			}
			t.add(rows)
			added <- len(rows)
		}
	}()

	toPost := make(chan *floorRow, 2*floorRows)
	go func() {
		defer close(toPost)
		last, claimed, there := int64(0), 0, 0
		for claimed < j.Batches {
			if claimed == there {
				there += <-added
			}
			rows := t.claim(last)
			claimed += len(rows)
			there = max(there, claimed)
			for _, x := range rows {
				last = max(last, x.seq)
				toPost <- x
			}
		}
	}()

	posted := make(chan *floorRow, 4*floorRows)
	var posting sync.WaitGroup
	for range floorWorkers {
		posting.Go(func() {
			for x := range toPost {
				panicOnError(c.post(ctx, x.payload))
				posted <- x
			}
		})
	}
	go func() { posting.Wait(); close(posted) }()

	toAsk := make(chan *floorRow, j.Batches)
	go func() {
		defer close(toAsk)
		for rows := range groupRows(posted, floorRows) {
			t.accepted(rows)
			for _, x := range rows {
				toAsk <- x
			}
		}
	}()

	final := make(chan *floorRow, j.Batches)
	questions := groupRows(toAsk, floorIDsPerQuery)
	var asking sync.WaitGroup
	for range floorPollers {
		asking.Go(func() {
			for rows := range questions {
				askUntilCommitted(ctx, w, c, rows, final)
			}
		})
	}
	go func() { asking.Wait(); close(final) }()

	for rows := range groupRows(final, floorRows) {
		t.committed(rows)
		now := w.sinceBegin()
		for _, x := range rows {
			w.momentsByBatch[x.seq-1].final = now
		}
	}
}

// askUntilCommitted asks about rows until all batches are committed.
func askUntilCommitted(ctx context.Context, w *work, c *client, rows []*floorRow, final chan<- *floorRow) {
	for len(rows) > 0 {
		ids := make([]string, len(rows))
		for i, x := range rows {
			ids[i] = x.id
		}
		answers, err := c.statuses(ctx, ids)
		panicOnError(err)
		committed := make(map[int]bool, len(answers))
		for _, a := range answers {
			if a.Status == wordCommitted {
				committed[w.indexOf(a.ID)] = true
			}
		}
		var left []*floorRow
		for _, x := range rows {
			if committed[int(x.seq-1)] {
				final <- x
			} else {
				left = append(left, x)
			}
		}
		rows = left
	}
}

// groupRows passes rows on in groups of at most size. The first row of a group waits for others no
// longer than the linger.
func groupRows(in <-chan *floorRow, size int) <-chan []*floorRow {
	out := make(chan []*floorRow)
	go func() {
		defer close(out)
		timer := time.NewTimer(floorGroupWait)
		defer timer.Stop()
		for first := range in {
			group := append(make([]*floorRow, 0, size), first)
			timer.Reset(floorGroupWait)
		fill:
			for len(group) < size {
				var x *floorRow
				ok := true
				select { // rows that have arrived are taken without reading the clock
				case x, ok = <-in:
				default:
					select {
					case x, ok = <-in:
					case <-timer.C:
						break fill
					}
				}
				if !ok {
					break fill
				}
				group = append(group, x)
			}
			out <- group
		}
	}()
	return out
}

func panicOnError(err error) {
	if err != nil {
		panic(err)
	}
}
