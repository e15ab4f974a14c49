package console

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// Limits of the first page.
const (
	homeTimeLimit  = 5 * time.Second  // for a survey of all lanes
	homeListRows   = 20               // rows in each of its lists
	keepUpInterval = 30 * time.Second // between two reads by a page that is kept up to date
)

// overview has the data of the first page.
type overview struct {
	operator.Situation
	shards []desks.Answer[operator.Situation] // the answer of each shard; nil if there are none
}

func (c *Console) readOverview(ctx context.Context) (o overview, err error) {
	// A kept report of causes is used only if no visitor has acted since the last survey.
	acts := c.overview.actCount.Load()
	if o.Situation, err = c.desk.Situation(ctx, operator.CausesQuery{Within: homeTimeLimit, Kept: acts == c.readMark}); err != nil {
		return o, err
	}
	c.readMark = acts
	return o, nil
}

// homeBody is the first page: the causes, and the counts.
type homeBody struct {
	operator.Situation
	Age       time.Duration // the age of the survey
	CountsAge time.Duration
	Open      int
	States    []stateCount
	Instances []store.Instance
	More      int             // number of instances that are not shown
	Held      []batch.Control // the first lanes that are paused or halted
	MoreHeld  bool
	Flow      *flowBody // nil if nothing was counted yet
	Shards    []shardRow
	Keeps     bool // the page reads itself again
	Every     time.Duration
}

type stateCount struct {
	State fmt.Stringer
	N     int
}

// homePage shows the first page.
func homePage(ctx context.Context, v *visit) (*answer, error) {
	read, keeps := v.overview.get, v.query.Get("keep") != ""
	if keeps {
		read = v.overview.getMaybeOld
	}
	o, old, err := read(ctx)
	if err != nil {
		return nil, err
	}
	look := v.overview.readCount.Load()
	b := homeBody{Situation: o.Situation, Keeps: keeps, Every: keepUpInterval, Flow: newFlow(o.Stats), Age: o.Causes.Age + old, CountsAge: o.Stats.Age + old}
	b.Shards = o.rows()
	b.States = stateCounts(o.Stats.Open)
	for _, s := range b.States {
		b.Open += s.N
	}
	b.Instances = o.Stats.Instances[:min(len(o.Stats.Instances), homeListRows)]
	b.More = len(o.Stats.Instances) - len(b.Instances)
	for _, c := range o.Held {
		if c.Closed() {
			b.Held = append(b.Held, c)
		}
	}
	b.MoreHeld = o.HeldMore || len(b.Held) > homeListRows
	b.Held = b.Held[:min(len(b.Held), homeListRows)]
	a := &answer{page: "home", title: "What is wrong", body: b, live: &liveLink{To: "./?keep=1", Look: look}}
	if keeps {
		a.reloadAfter, a.live = keepUpInterval, &liveLink{On: true, To: "./", Look: look}
	}
	return a, nil
}

// closedRank sorts paused and halted lanes before lanes that only have a policy.
func closedRank(c batch.Control) int {
	if c.Closed() {
		return 0
	}
	return 1
}

// remedyText returns a remedy in words, and the address and the label of the page that carries it
// out.
func remedyText(e batch.Explanation) (then, to, name string) {
	lane := scopeLink(batch.Only(e.Service))
	switch e.Remedy {
	case batch.RemedyWait:
		return "Nothing: it moves by itself while an instance runs.", batchLink(e.Key), "the batch"
	case batch.RemedyResume:
		return "Resume " + e.Control.Scope.String() + ", once the reason for the pause is gone.", scopeLink(e.Control.Scope) + "#resume", "Resume " + e.Control.Scope.String()
	case batch.RemedyRelease:
		if e.Blocker == e.Key {
			return "Release the lane: the batch halted it, and was requeued since.", lane + "#release", "Release the lane"
		}
		return "Look at the batch that halted the lane, requeue it if it should be sent again, and release the lane.", lane + "#release", "Release the lane"
	case batch.RemedyBlocker:
		return "The batch in its way has to be final first.", batchLink(e.Blocker), "the batch in its way"
	case batch.RemedyDecide:
		return "Look at the ledger whether the batch is there, and then decide.", batchLink(e.Key) + "#decide", "Decide"
	case batch.RemedyStrategy:
		return "Correct the strategy of the application: it takes nothing from this lane. Nothing here does that.", lane, "the lane"
	case batch.RemedyLedger:
		return "Give the application a ledger, or options, that serve the service. Nothing here does that.", lane, "the lane"
	case batch.RemedyRequeue:
		if e.Cause == batch.CauseQuarantined {
			return "Requeue it to send it again, or acquit it.", batchLink(e.Key) + "#requeue", "Requeue"
		}
		return "Nothing has to be done. A requeue would send it again.", batchLink(e.Key) + "#requeue", "Requeue"
	}
	return "", batchLink(e.Key), "the batch"
}
