package store

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
)

// InOrder returns the rows of a lane in the order in which a claim by q shows them to the
// strategy. rows are as in [PlanLane].
func (q ClaimQuery) InOrder(service batch.ServiceID, rows []LaneRow) []LaneRow {
	order := inOrder(rows, q.isNumbered(service), func([]LaneRow) int { return max(1, q.Window) })
	shown := make([]LaneRow, len(order))
	for i, at := range order {
		shown[i] = rows[at]
	}
	return shown
}

// inOrder returns the indexes of the rows in the order in which a claim shows them. Attempted rows
// come before waiting rows, because they are under way, and a waiting row that became visible
// later must not hold them up. An attempted row that waits again keeps the place of its order key:
// it comes after every waiting row with an earlier key. Such a waiting row exists because another
// strategy let the attempted row go first, or because the waiting row became visible late. wanted
// returns how many waiting rows were asked for. An attempted row that waits again is not shown if
// waiting rows that were not read may come before it.
//
// If numbered is true, rows with prepared bytes come before all others, in the order of these
// bytes: a row with a later number could not be executed before them, and would hold them up for
// ever.
func inOrder(rows []LaneRow, numbered bool, wanted func(attempted []LaneRow) int) []int {
	order := make([]int, 0, len(rows))
	var attempted []LaneRow
	again := false
	for i := range rows {
		if rows[i].Row.Attempted() {
			order = append(order, i)
			again = again || rows[i].Row.State.Claimable()
		}
	}
	tried := len(order)
	if numbered {
		slices.SortStableFunc(order, func(i, j int) int { return rows[i].compareNumbers(&rows[j]) })
	}
	for i := range rows {
		if !rows[i].Row.Attempted() {
			order = append(order, i)
		}
	}
	if !again || tried == len(rows) {
		return order
	}
	for _, at := range order[:tried] {
		attempted = append(attempted, rows[at])
	}
	waiting := order[tried:]
	all := len(waiting) < wanted(attempted)
	merged := make([]int, 0, len(rows))
	for _, at := range order[:tried] {
		if rows[at].Row.State.Claimable() && !(numbered && len(rows[at].Row.Prepared) > 0) {
			n, _ := slices.BinarySearchFunc(waiting, &rows[at], func(i int, r *LaneRow) int { return rows[i].compare(r) })
			merged = append(merged, waiting[:n]...)
			waiting = waiting[n:]
			if len(waiting) == 0 && !all {
				continue
			}
		}
		merged = append(merged, at)
	}
	return append(merged, waiting...)
}

// compare orders rows by their order keys.
func (r *LaneRow) compare(other *LaneRow) int {
	return cmp.Or(r.Created.Compare(other.Created), cmp.Compare(r.Key.ID, other.Key.ID))
}

// compareNumbers orders rows with prepared bytes by these, before rows without.
func (r *LaneRow) compareNumbers(other *LaneRow) int {
	a, b := r.Row.Prepared, other.Row.Prepared
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(b), len(a))
	}
	return bytes.Compare(a, b)
}
