package sqlstore

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Window has the rows of a lane that a driver read for a claim.
type Window interface {
	// Wants returns how many waiting rows of the lane the claim wants.
	Wants() (service batch.ServiceID, rows int)
	// Rows returns the rows that were read, in order.
	Rows() []store.LaneRow
}

// PlanLanes plans one lane after the other into out, until left claims are made or q.Bytes are
// used up, and returns how many claims are left. wait adds the waiting rows to windows. planned
// takes the rows as a plan has changed them. PlanLanes reads the waiting rows only of those lanes
// that the limit lets through. After a round with fewer rows than wanted, the next round reads a
// few more lanes.
func PlanLanes[W Window](windows []W, now time.Time, q *store.ClaimQuery, left int, choose store.Choose, out *store.Claimed,
	wait func(windows []W) error, planned func(w W, lane []store.LaneRow) error,
) (int, error) {
	for budget := left; len(windows) > 0 && left > 0; budget *= 4 {
		n := rowsToRead(windows, max(left, budget))
		if err := wait(windows[:n]); err != nil {
			return left, err
		}
		for ; n > 0 && left > 0; n-- {
			w := windows[0]
			windows = windows[1:]
			lane := w.Rows()
			if len(lane) == 0 {
				continue
			}
			service, _ := w.Wants()
			plan := store.PlanLane(service, lane, now, *q, left, choose)
			if err := planned(w, lane); err != nil {
				return left, err
			}
			left = out.Add(service, plan, q, left)
		}
	}
	for _, w := range windows {
		service, _ := w.Wants()
		out.Left = append(out.Left, service)
	}
	return left, nil
}

// rowsToRead returns how many of the first windows, at least one, together want that number of
// rows.
func rowsToRead[W Window](windows []W, rows int) int {
	for i, w := range windows {
		if rows <= 0 && i > 0 {
			return i
		}
		_, want := w.Wants()
		rows -= want
	}
	return len(windows)
}
