package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

// ErrOtherTraits comes with a [batch.EventTrouble]: an earlier process under the ledger's name
// relied on other traits, another claim TTL or another strategy. The error shows both sets as
// JSON. The new ones are recorded in addition to the old ones, and hold for this process. The
// cause is a change of settings, or settings that differ between instances.
var ErrOtherTraits = errors.New("dltbatch: the ledger's traits differ from the recorded ones")

// keptRecord is the record under a ledger's name, as far as a Run knows it.
type keptRecord struct {
	relied.Settings
	traitsVary bool // whether this Run met services with other traits
	isComplete bool // whether further services with these settings change nothing
}

// keepTraits records what this process relies on for the ledger that serves s: once for each
// ledger name in a Run, once more if a service has other traits, and for each service until the
// record names enough of them or another process has replaced it. It reports a difference before
// it replaces the old record, so that the next process reports it if this one dies in between.
func (g *admission) keepTraits(ctx context.Context, s batch.ServiceID, t dlt.Traits) (err error) {
	own := relied.SettingsOf(s, t, g.options.ClaimTTL, g.options.Strategy)
	g.keepMutex.Lock()
	known, is := g.records[t.Name]
	same := own.Same(known.Settings)
	if is && (known.traitsVary || same && known.isComplete) {
		g.keepMutex.Unlock()
		return nil
	}
	known = keptRecord{own, is && !same, known.isComplete}
	g.records[t.Name] = known // nothing else need do it meanwhile
	g.keepMutex.Unlock()
	done := false
	defer func() {
		g.keepMutex.Lock()
		defer g.keepMutex.Unlock()
		if err != nil {
			delete(g.records, t.Name)
		} else if g.records[t.Name] == known {
			known.isComplete = done
			g.records[t.Name] = known
		}
	}()
	for {
		seen, err := texts.Read(ctx, g.store, store.TextTraits, t.Name)
		if err != nil {
			return fmt.Errorf("read the traits of %q: %w", t.Name, err)
		}
		want := relied.Record{Settings: own}
		if seen.Version > 0 {
			next, changes, differs := g.nextRecord(own, t.Name, seen.Body)
			done = next.Full() || !next.Holds(s)
			if !changes {
				return nil
			}
			if differs && is && same { // another process replaced the record since this Run wrote it: this Run writes once only
				done = true
				return nil
			}
			if differs {
				has, err := relied.Record{Settings: next.Settings}.Text()
				if err != nil {
					return fmt.Errorf("the traits of %q: %w", t.Name, err)
				}
				g.traitsDiffer(fmt.Errorf("%w: %q had %s, has %s", ErrOtherTraits, t.Name, seen.Body, has))
			}
			want = next
		}
		if seen.Body, err = want.Text(); err != nil {
			return fmt.Errorf("the traits of %q: %w", t.Name, err)
		}
		if did, err := g.store.SwapTexts(ctx, seen); err != nil {
			return fmt.Errorf("keep the traits of %q: %w", t.Name, err)
		} else if did {
			return nil
		}
	}
}

// nextRecord returns the record that is to replace the present one, whether it changes anything,
// and whether the present record differs from this process's settings. If the traits of a ledger
// differ by service, that alone is no difference: nextRecord compares the settings of the recorded
// service. The settings of the other recorded services, and of this one, tell whether traits
// differ by service.
func (g *admission) nextRecord(own relied.Settings, name, there string) (next relied.Record, changes, differs bool) {
	was, err := relied.Read(there)
	if err != nil {
		return relied.Record{Settings: own}, true, true
	}
	mine := own
	if its, ok := g.recordedSettings(was.Service, name); ok {
		mine = its
	}
	next = was
	if differs = !mine.Same(was.Settings); differs {
		next = was.Replace(mine)
	}
	next.Alike = nil
	for _, s := range append(slices.Clone(was.Alike), own.Service) {
		its, ok := own, true
		if s != own.Service {
			its, ok = g.recordedSettings(s, name)
		}
		switch {
		case ok && !its.Same(mine):
			next.Varies = true
		case ok || !differs:
			next = next.Compare(s)
		}
	}
	return next, !reflect.DeepEqual(next, was), differs
}

// recordedSettings returns the present settings of the service whose traits are recorded. ok is
// false if that service belongs to another ledger.
func (g *admission) recordedSettings(s batch.ServiceID, name string) (its relied.Settings, ok bool) {
	t, err := g.knownTerms(s)
	if err != nil {
		return its, false
	}
	return relied.SettingsOf(s, t.Traits, g.options.ClaimTTL, g.options.Strategy), t.Name == name
}
