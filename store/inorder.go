package store

import (
	"cmp"
	"slices"
)

// InOrder returns the rows of a lane in the order in which a claim shows them, of which at
// most window are among those that wait. rows are as [PlanLane] has them.
func InOrder(rows []LaneRow, window int) []LaneRow {
	order := inOrder(rows, func([]LaneRow) int { return window })
	shown := make([]LaneRow, len(order))
	for i, at := range order {
		shown[i] = rows[at]
	}
	return shown
}

// inOrder returns the places of the rows in the order in which they are shown. What was
// attempted stands before what waits: it is under way, and what waits became visible
// later, or must not hold it up. But what was attempted and waits again keeps its place
// by its order key: it comes behind whatever waits and has an earlier one. That may be
// under an earlier order key because it was added earlier, and another strategy let this
// one go first; or because it became visible late. Where there may be more that waits in
// front of it than was read, of which wanted says how much that is, it is not shown.
func inOrder(rows []LaneRow, wanted func(attempted []LaneRow) int) []int {
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
		if rows[at].Row.State.Claimable() {
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
