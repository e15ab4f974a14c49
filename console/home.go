package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// Bounds of the first page.
const (
	homeWithin = 5 * time.Second  // for a look at all lanes
	homeRows   = 20               // of each of its lists
	keepEvery  = 30 * time.Second // between looks of a page that is kept up to date
)

// overview has the data of the first page.
type overview struct {
	causes  operator.Causes
	stats   store.Stats
	counted bool            // the store keeps counts
	held    []batch.Control // one more than is shown
}

func (c *Console) readOverview(ctx context.Context) (o overview, err error) {
	// A kept report of causes serves only as long as no visitor has acted since the last look.
	acts := c.overview.acts.Load()
	if o.causes, err = c.desk.Causes(ctx, operator.CausesQuery{Within: homeWithin, Kept: acts == c.looked}); err != nil {
		return o, err
	}
	c.looked = acts
	if o.held, err = c.desk.Controls(ctx, store.ControlsQuery{Start: true, Limit: homeRows + 1}); err != nil {
		return o, err
	}
	o.stats, err = c.desk.Stats(ctx)
	if o.counted = !errors.Is(err, store.ErrUnsupported); !o.counted {
		err = nil
	}
	return o, err
}

// homeBody is the first page: the causes, and the counts.
type homeBody struct {
	Age time.Duration // of the look
	// Person are the groups that a person has to look at, Itself the others.
	Person, Itself []group
	Causes         operator.Causes
	Counted        bool
	CountsAge      time.Duration
	Stats          store.Stats
	Open           int
	States         []stateCount
	Live           int
	Instances      []store.Instance
	More           int // instances that are not shown
	Troubles       []trouble
	Held           []batch.Control
	MoreHeld       bool
	Flow           *flowBody // nil where nobody has counted
	Keeps          bool      // this page reads itself again
	Every          time.Duration
}

type stateCount struct {
	State fmt.Stringer
	N     int
}

// home is the first page.
func home(ctx context.Context, v *visit) (*answer, error) {
	read, keeps := v.overview.get, v.q.Get("keep") != ""
	if keeps {
		read = v.overview.lazy
	}
	o, old, err := read(ctx)
	if err != nil {
		return nil, err
	}
	b := homeBody{Keeps: keeps, Every: keepEvery, Flow: newFlow(o.stats), Age: o.causes.Age + old, Causes: o.causes, Counted: o.counted, Stats: o.stats, CountsAge: o.stats.Age + old, Held: o.held}
	for _, g := range o.causes.Groups {
		if shown := grouped(g); shown.ByItself {
			b.Itself = append(b.Itself, shown)
		} else {
			b.Person = append(b.Person, shown)
		}
	}
	b.States = counted(o.stats.Open)
	for _, s := range b.States {
		b.Open += s.N
	}
	for _, i := range o.stats.Instances {
		if i.Live {
			b.Live++
		}
	}
	b.Troubles = troubles(o.stats.Instances)
	b.Instances = o.stats.Instances[:min(len(o.stats.Instances), homeRows)]
	b.More = len(o.stats.Instances) - len(b.Instances)
	b.Held = slices.Clone(b.Held) // it is shared
	slices.SortStableFunc(b.Held, func(a, b batch.Control) int { return closedFirst(a) - closedFirst(b) })
	if b.MoreHeld = len(b.Held) > homeRows; b.MoreHeld {
		b.Held = b.Held[:homeRows]
	}
	a := &answer{page: "home", title: "What is stuck, and why", body: b, live: &liveLink{To: "./?keep=1"}}
	if keeps {
		a.again, a.live = keepEvery, &liveLink{On: true, To: "./"}
	}
	return a, nil
}

// closedFirst orders lanes that stand still before those that only have a policy.
func closedFirst(c batch.Control) int {
	if c.Closed() {
		return 0
	}
	return 1
}

// group is a cause on the first page.
type group struct {
	operator.Group
	// At explains the batch at the end of the row that begins with the example, or the example
	// itself: the remedy is for this one.
	At batch.Explanation
	// Then is the remedy in words. To is the page that carries it out, under a Name.
	Then, To, Name string
	// All is the page, under AllName, that leads to all of the group; "" where one is enough.
	All, AllName string
	// ByItself says that nobody has to do anything.
	ByItself bool
}

func grouped(g operator.Group) group {
	s := group{Group: g, At: g.Example, ByItself: byItself(g.Cause)}
	if g.Root != "" {
		s.ByItself = byItself(g.Root)
	}
	if g.Remedy == batch.RemedyBlocker && g.Blocker.ID != "" {
		s.At = g.Blocker
	}
	s.Then, s.To, s.Name = mend(s.At)
	switch {
	case g.Cause == operator.CauseUnknown:
		s.Then, s.To, s.Name = "Start an instance of this version, or look at the settings on record.", "lanes", "the lanes"
		if g.Example.ID != "" {
			s.To, s.Name = link("lane", "service", string(g.Example.Service))+"#settings", "the settings of its lane"
		}
	case s.At.ID == "":
		s.Then, s.To, s.Name = "Its batches have moved on meanwhile.", "./", "Look again"
	case g.Cause == batch.CauseDecision && g.Batches > 1:
		s.All, s.AllName = link("bulk", "action", string(batch.ActionDecide), "cause", string(batch.CauseDecision)), "Decide about all of them"
	case g.Lanes > 1 && (g.Cause == batch.CausePaused || g.Cause == batch.CauseHalted):
		s.All, s.AllName = link("lanes", "held", "1"), "All lanes that are held"
	}
	return s
}

// mend puts a remedy into words, and names the page where it is carried out.
func mend(e batch.Explanation) (then, to, name string) {
	lane := scopeLink(batch.Only(e.Service))
	switch e.Remedy {
	case batch.RemedyWait:
		return "Nothing: it moves by itself while an instance runs.", batchLink(e.Key), "the batch"
	case batch.RemedyResume:
		return "Resume " + e.Control.Scope.String() + ", once the reason for the pause is gone.", scopeLink(e.Control.Scope) + "#resume", "Resume " + e.Control.Scope.String()
	case batch.RemedyRelease:
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
		return "Nothing has to be done. A requeue would send it again.", batchLink(e.Key) + "#requeue", "Requeue"
	}
	return "", batchLink(e.Key), "the batch"
}
