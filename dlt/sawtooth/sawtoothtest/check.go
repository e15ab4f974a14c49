package sawtoothtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Expectation is the knowledge of a test about its batches, which a node does not have.
type Expectation struct {
	// Lane returns the lane of a batch. Nil means that all are in the lane "".
	Lane func(batch.ID) string
	// Order lists, by lane, all batches that must be committed, in that order, and no others.
	// Nil checks no order.
	Order map[string][]batch.ID
	// TimeTolerance is the tolerance of times: a POST may begin this long before the end of the
	// previous POST, or after a COMMITTED answer. A client needs time to read an answer, and a
	// node learns late that a client has left. Defaults to 0.
	TimeTolerance time.Duration
}

// Check returns all faults in a journal, joined, or nil:
//
//   - a batch that was committed twice, without a fork in between
//   - a lane whose committed batches differ from Order, or from its order
//   - two POSTs of one id at the same time
//   - a POST of an id that began after a status query about it had been answered COMMITTED
//
// Failed executions do not count: a node repeats them by itself
// (docs/ledgers/sawtooth.md#statuses).
func Check(journal []Entry, e Expectation) error {
	var errs []error
	errs = append(errs, checkOnce(journal)...)
	errs = append(errs, checkOrder(journal, e)...)
	errs = append(errs, checkPosts(journal, e.TimeTolerance)...)
	return errors.Join(errs...)
}

// Check is [Check] of the node's journal so far.
func (n *Node) Check(e Expectation) error { return Check(n.Journal(), e) }

func checkOnce(journal []Entry) (errs []error) {
	block := map[batch.ID]int{}
	for _, x := range journal {
		if x.Kind == Forked {
			for _, id := range x.Batches {
				delete(block, id)
			}
		}
		if x.Kind != BlockCommitted {
			continue
		}
		for _, id := range x.Batches {
			if first, twice := block[id]; twice {
				errs = append(errs, fmt.Errorf("batch %s: committed in block %d and again in block %d", shortID(id), first, x.Block))
				continue
			}
			block[id] = x.Block
		}
	}
	return errs
}

func checkOrder(journal []Entry, e Expectation) (errs []error) {
	if e.Order == nil {
		return nil
	}
	got := map[string][]batch.ID{}
	for _, x := range journal {
		if x.Kind != BlockCommitted && x.Kind != Forked {
			continue
		}
		for _, id := range x.Batches {
			lane := ""
			if e.Lane != nil {
				lane = e.Lane(id)
			}
			if x.Kind == Forked {
				got[lane] = slices.DeleteFunc(got[lane], func(other batch.ID) bool { return other == id })
				continue
			}
			got[lane] = append(got[lane], id)
		}
	}
	lanes := make([]string, 0, len(got)+len(e.Order))
	for lane := range got {
		lanes = append(lanes, lane)
	}
	for lane := range e.Order {
		if _, ok := got[lane]; !ok {
			lanes = append(lanes, lane)
		}
	}
	slices.Sort(lanes)
	for _, lane := range lanes {
		if err := checkSameOrder(got[lane], e.Order[lane]); err != nil {
			errs = append(errs, fmt.Errorf("lane %q: %w", lane, err))
		}
	}
	return errs
}

func checkSameOrder(got, want []batch.ID) error {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("position %d of %d: committed %s, want %s", i, len(want), shortID(got[i]), shortID(want[i]))
		}
	}
	switch {
	case len(got) < len(want):
		return fmt.Errorf("%d of %d committed; the first that is missing is %s", len(got), len(want), shortID(want[len(got)]))
	case len(got) > len(want):
		return fmt.Errorf("%d committed and %d expected; the first beyond them is %s", len(got), len(want), shortID(got[len(want)]))
	}
	return nil
}

func checkPosts(journal []Entry, slack time.Duration) (errs []error) {
	ends := map[int]time.Time{}
	for _, x := range journal {
		if x.Kind == PostEnd {
			ends[x.Request] = x.Time
		}
	}
	type posting struct {
		request int
		end     time.Time
		isOpen  bool
	}
	last := map[batch.ID]posting{}
	committed := map[batch.ID]time.Time{}
	for _, x := range journal {
		switch {
		case x.Kind == StatusAnswered && x.Word == Committed:
			if _, ok := committed[x.Batches[0]]; !ok {
				committed[x.Batches[0]] = x.Time
			}
		case x.Kind == Forked:
			for _, id := range x.Batches {
				delete(committed, id)
			}
		case x.Kind == PostStart:
			end, ended := ends[x.Request]
			for _, id := range x.Batches {
				if p, ok := last[id]; ok && p.request != x.Request && (p.isOpen || p.end.Sub(x.Time) > slack) {
					errs = append(errs, fmt.Errorf("batch %s: POST %d began while POST %d was going on", shortID(id), x.Request, p.request))
				}
				if at, ok := committed[id]; ok && x.Time.Sub(at) > slack {
					errs = append(errs, fmt.Errorf("batch %s: POST %d began %v after it had been answered COMMITTED", shortID(id), x.Request, x.Time.Sub(at)))
				}
				if p, ok := last[id]; !ok || !ended || end.After(p.end) {
					last[id] = posting{request: x.Request, end: end, isOpen: !ended}
				}
			}
		}
	}
	return errs
}

// shortID returns the beginning of an id, enough to find the batch.
func shortID(id batch.ID) string {
	if len(id) > 12 {
		return string(id[:12]) + "..."
	}
	return string(id)
}
