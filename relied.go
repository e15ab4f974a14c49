package dltbatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// ErrOtherTraits comes with a [batch.EventTrouble]: an earlier process under the ledger's name
// relied on other traits. The error shows both sets as JSON. The new ones are recorded and
// hold for this process. The cause is a change of settings, or settings that differ between
// instances.
var ErrOtherTraits = errors.New("dltbatch: the ledger's traits are not those that are recorded")

// relied is the record, as JSON, of the traits that a process relies on when it serves a
// ledger. Traits may differ by service: the record has the traits of Service.
type relied struct {
	Service               batch.ServiceID `json:"service"`
	ResendHarmlessFor     string          `json:"resend_harmless_for"`
	LateArrival           string          `json:"late_arrival"`
	Grace                 string          `json:"grace"`
	ResendQuiet           string          `json:"resend_quiet"`
	Settle                string          `json:"settle"`
	MaxInFlightPerService int             `json:"max_in_flight_per_service"`
	KeepsOrder            bool            `json:"keeps_order"`
	ClaimTTL              string          `json:"claim_ttl"`
}

// reliedOn returns the JSON of relied.
func reliedOn(s batch.ServiceID, t dlt.Traits, claimTTL time.Duration) (string, error) {
	harmless := t.ResendHarmlessFor.String()
	if t.ResendHarmlessFor == dlt.Forever {
		harmless = "forever"
	}
	text, err := json.Marshal(relied{
		s, harmless, t.LateArrival.String(), t.Grace.String(), t.ResendQuiet.String(), t.Settle.String(),
		t.MaxInFlightPerService, t.KeepsOrder, claimTTL.String(),
	})
	return string(text), err
}

// keepTraits records the traits of the ledger that serves s, once per ledger name and Run. It
// reports a difference before it replaces the old record: if the process dies in between, the
// next process reports it.
func (g *gate) keepTraits(ctx context.Context, s batch.ServiceID, t dlt.Traits) (err error) {
	g.mu.Lock()
	known := g.kept[t.Name]
	g.kept[t.Name] = true
	g.mu.Unlock()
	if known {
		return nil
	}
	defer func() {
		if err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			delete(g.kept, t.Name)
		}
	}()
	own, err := reliedOn(s, t, g.o.ClaimTTL)
	if err != nil {
		return fmt.Errorf("the traits of %q: %w", t.Name, err)
	}
	for seen := ""; ; {
		kept, err := g.store.KeepTraits(ctx, t.Name, own, seen)
		if err != nil {
			return fmt.Errorf("keep the traits of %q: %w", t.Name, err)
		}
		if kept == own || kept == g.ofRecorded(kept, t.Name) {
			return nil
		}
		g.differ(fmt.Errorf("%w: %q had %s, has %s", ErrOtherTraits, t.Name, kept, own))
		seen = kept
	}
}

// ofRecorded returns the present traits of the service whose traits are recorded, so that a
// ledger whose traits differ by service does not differ from itself. It returns "" where that
// service belongs to another ledger.
func (g *gate) ofRecorded(kept, name string) (own string) {
	var r relied
	if err := json.Unmarshal([]byte(kept), &r); err != nil {
		return ""
	}
	err := loop.Contain(func() (err error) {
		if t := g.ledger.Traits(r.Service); t.Name == name {
			own, err = reliedOn(r.Service, t, g.o.ClaimTTL)
		}
		return err
	})
	if err != nil {
		return ""
	}
	return own
}
