package sawtoothtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// task is work of the validator for a request.
type task struct {
	do             func(now time.Time)
	needsPublisher bool // true if it needs the publisher's lock, like every POST of batches
	hasOwnThread   bool // true if it runs on a thread that is not one of the client threads
	hasRun         bool
	isLost         bool // true if the validator was killed before the task ran
}

// giveTask gives the validator a task. While the validator is down the REST API keeps the task,
// and never drops it. The validator gets it when it is up again.
func (v *validator) giveTask(now time.Time, t *task) {
	switch {
	case v.isDown:
		v.keptRequests = append(v.keptRequests, t)
	case !t.hasOwnThread && v.mustQueue():
		v.waitingRequests = append(v.waitingRequests, t)
	default:
		v.runTask(now, t)
		v.freeThreads(now)
	}
}

func (v *validator) runTask(now time.Time, t *task) {
	if t.needsPublisher && v.hasHalted {
		v.heldPosts = append(v.heldPosts, t)
		return
	}
	t.do(now)
	t.hasRun = true
}

// kill ends the validator, which loses its tasks. Later requests wait.
func (v *validator) kill(now time.Time) {
	for _, t := range slices.Concat(v.waitingRequests, v.heldPosts) {
		t.isLost = true
	}
	for _, w := range v.waits {
		w.isLost = true
	}
	v.crash(now)
	v.isDown, v.upAgainAt = true, time.Time{}
}

// finishStart ends the validator's start: it is up now.
func (v *validator) finishStart(now time.Time) {
	v.isDown, v.upAgainAt = false, time.Time{}
	v.journal.add(Entry{Time: now, Kind: Started})
	sent := v.keptRequests
	v.keptRequests = nil
	for _, t := range sent {
		v.giveTask(now, t)
	}
}

// KillValidator kills the validator as kill -9 does, but not the REST API. The validator keeps
// only the chain: it loses its pool, its memory of known batches, the statuses and the pool's
// limit. Requests that it had are answered 503/18 at once. Later requests are answered 503/17
// after Options.RESTTimeout, and the validator nevertheless executes them, POSTs of batches
// included, when it is up again ([Node.StartValidator]). Subscribers are warned.
func (n *Node) KillValidator() {
	n.whileLocked(func(now time.Time) {
		if n.validator.isDown && n.validator.upAgainAt.IsZero() {
			return
		}
		n.validator.journal.add(Entry{Time: now, Kind: Killed})
		n.validator.kill(now)
		n.validator.chain.loseEvents()
		n.wake()
	})
}

// StartValidator starts a killed validator. It is up after Options.StartTime; requests wait
// for it until then.
func (n *Node) StartValidator() {
	n.whileLocked(func(now time.Time) {
		if !n.validator.isDown || !n.validator.upAgainAt.IsZero() {
			return
		}
		n.validator.chain.areEventsLost = false
		n.validator.upAgainAt = now.Add(n.options.StartTime)
		n.validator.advance(now)
		n.wake()
	})
}

// Restart is a crash and a start of the whole node, the validator and the REST API. Only the chain
// is left, and requests that have not arrived yet. Open connections are cut. The node accepts
// connections all the time; the validator answers after Options.StartTime.
func (n *Node) Restart() {
	n.whileLocked(func(now time.Time) {
		n.validator.journal.add(Entry{Time: now, Kind: Restarted})
		n.validator.kill(now)
		n.validator.keptRequests = nil
		n.validator.restartCount++
		n.validator.chain.areEventsLost, n.validator.chain.headAtBreak = false, nil
		n.validator.upAgainAt = now.Add(n.options.StartTime)
		n.validator.advance(now)
		n.wake()
	})
	n.front.Cut()
	n.DropSockets()
}

// Genesis gives a node without a chain ([Options.NoGenesis]) its first block. The batches in
// its pool go on.
func (n *Node) Genesis() {
	n.whileLocked(func(now time.Time) {
		n.validator.lacksGenesis = false
		n.validator.setBlockTime(now)
		n.wake()
	})
}

// AddFamily starts a transaction processor: from here on the family is executed. If the node
// was halted because it had no such processor, it goes on at once.
func (n *Node) AddFamily(f Family) {
	n.whileLocked(func(now time.Time) {
		n.validator.options.Families = append(slices.Clone(n.validator.options.Families), f)
		n.validator.endHalt(now)
		n.wake()
	})
}

// RemoveFamily ends a transaction processor: the next batch of the family halts the node, like
// a batch of a family that was never served ([Options.Families]).
func (n *Node) RemoveFamily(f Family) {
	n.whileLocked(func(time.Time) {
		n.validator.options.Families = slices.DeleteFunc(slices.Clone(n.validator.options.Families), func(x Family) bool { return x == f })
	})
}

func (v *validator) serves(name, version string) bool {
	return slices.Contains(v.options.Families, Family{Name: name, Version: version})
}

// firstUnserved returns the first batch of the next block with a transaction that no processor
// serves, and that transaction's family.
func (v *validator) firstUnserved(now time.Time) (*submittedBatch, Family) {
	n := 0
	for _, p := range v.pool {
		if p.notBefore.After(now) {
			continue
		}
		if n++; v.options.MaxBatchesPerBlock > 0 && n > v.options.MaxBatchesPerBlock {
			break
		}
		for _, tx := range p.batch.txs {
			f := Family{Name: tx.header.GetFamilyName(), Version: tx.header.GetFamilyVersion()}
			if !v.serves(f.Name, f.Version) {
				return p.batch, f
			}
		}
	}
	return nil, Family{}
}

// isHalted reports whether the next block waits for a missing processor. During that time the
// publisher holds its lock, which every POST needs.
func (v *validator) isHalted(now time.Time) bool {
	b, f := v.firstUnserved(now)
	if b == nil {
		return false
	}
	v.hasHalted = true
	v.journal.add(Entry{Time: now, Kind: Halted, Batches: []batch.ID{b.id}, Word: fmt.Sprintf("no processor for %s %s", f.Name, f.Version)})
	return true
}

// endHalt ends a halt if all batches are served now, and runs the waiting POSTs.
func (v *validator) endHalt(now time.Time) {
	if !v.hasHalted {
		return
	}
	if b, _ := v.firstUnserved(now); b != nil {
		return
	}
	v.hasHalted = false
	v.setBlockTime(now)
	held := v.heldPosts
	v.heldPosts = nil
	for _, t := range held {
		v.runTask(now, t)
	}
}
