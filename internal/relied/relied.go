// Package relied is the record of the settings that processes rely on when they serve a ledger:
// the traits of a route, and the options that decide about claims. A store keeps the record as a
// text under the ledger's name ([store.TextTraits]), so that a process without the ledger's client
// can read the record.
package relied

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// Settings are the traits and options on which one process relies. Traits may differ by service:
// these are the traits of Service.
type Settings struct {
	Service               batch.ServiceID `json:"service"`
	ResendHarmlessFor     string          `json:"resend_harmless_for"`
	LateArrival           string          `json:"late_arrival"`
	Grace                 string          `json:"grace"`
	ResendQuiet           string          `json:"resend_quiet"`
	Settle                string          `json:"settle"`
	MaxInFlightPerService int             `json:"max_in_flight_per_service"`
	KeepsOrder            bool            `json:"keeps_order"`
	// PreparesInOrder is true if a lane's order is that of its prepared bytes
	// (store.ClaimQuery.Numbered).
	PreparesInOrder bool   `json:"prepares_in_order"`
	ClaimTTL        string `json:"claim_ttl"`
	// Strategy is one of the constants of this package, or the type of the application's own
	// strategy.
	Strategy string `json:"strategy"`
	Window   int    `json:"window"`
	// AddAgain is dlt.Traits.AddAgainHarmless, "true" or "false". It decides whether Prune keeps
	// ids of removed batches.
	AddAgain string `json:"add_again_harmless"`
	// Withdraws is dlt.Traits.Withdraws.
	Withdraws bool `json:"withdraws"`
}

// Record is the text under a ledger's name: the settings of the last process that replaced the
// record.
type Record struct {
	Settings
	// Alike has further services whose settings were compared and are the same, maxAlikeServices
	// at most.
	Alike []batch.ServiceID `json:"alike,omitempty"`
	// Varies is true if a service of the route was seen with other traits than Service has.
	Varies bool `json:"varies,omitempty"`
	// Other has the oldest settings that another process has since replaced by its own, and
	// Further the later ones, oldest first. They stay until a person confirms that no process has
	// them any more; Agreed names that person. More is true if there were more than
	// maxOtherSettings, so that some are not kept.
	Other   *Settings  `json:"other,omitempty"`
	Further []Settings `json:"further,omitempty"`
	More    bool       `json:"more,omitempty"`
	Agreed  *batch.By  `json:"agreed,omitempty"`
}

const (
	// maxAlikeServices bounds Record.Alike: a route may have very many services.
	maxAlikeServices = 16
	// maxOtherSettings bounds Record.Other and Further together.
	maxOtherSettings = 8
)

// Full reports whether Alike is full.
func (r Record) Full() bool { return len(r.Alike) >= maxAlikeServices }

// Compare returns the record after a comparison that found the settings of s to be the same.
func (r Record) Compare(s batch.ServiceID) Record {
	if s != r.Service && !r.Full() && !slices.Contains(r.Alike, s) {
		r.Alike = append(slices.Clone(r.Alike), s)
	}
	return r
}

// Uniform reports whether the settings count for every service: Alike is full, and no service was
// seen with other traits.
func (r Record) Uniform() bool { return r.Full() && !r.Varies }

// Holds reports whether the settings are valid for the service s.
func (r Record) Holds(s batch.ServiceID) bool {
	return s == r.Service || slices.Contains(r.Alike, s) || r.Uniform()
}

// Replace returns the record with other settings. It keeps the former settings if they differ, and
// the oldest of them if there are too many.
func (r Record) Replace(by Settings) Record {
	others := slices.DeleteFunc(r.otherSettings(), by.Same)
	if !slices.ContainsFunc(others, r.Same) {
		others = append(others, r.Settings)
	}
	if len(others) > maxOtherSettings {
		others, r.More = others[:maxOtherSettings], true
	}
	r.Settings, r.Other, r.Further, r.Agreed = by, &others[0], others[1:], nil
	return r
}

// WithAgreement returns the record after a person has confirmed that no process has other
// settings.
func (r Record) WithAgreement(by batch.By) Record {
	r.Other, r.Further, r.More, r.Agreed = nil, nil, false, &by
	return r
}

// Disagree reports whether the record has other settings that differ from the present ones. same
// compares two settings.
func (r Record) Disagree(same func(a, b Settings) bool) bool {
	return r.More || slices.ContainsFunc(r.otherSettings(), func(o Settings) bool { return !same(r.Settings, o) })
}

// otherSettings returns Other and Further together.
func (r Record) otherSettings() []Settings {
	if r.Other == nil {
		return slices.Clone(r.Further)
	}
	return append([]Settings{*r.Other}, r.Further...)
}

// SettingsOf returns the settings of a process that serves the service s.
func SettingsOf(s batch.ServiceID, t dlt.Traits, claimTTL time.Duration, strategy queuer.Strategy) Settings {
	harmless := t.ResendHarmlessFor.String()
	if t.ResendHarmlessFor == dlt.Forever {
		harmless = "forever"
	}
	return Settings{
		s, harmless, t.LateArrival.String(), t.Grace.String(), t.ResendQuiet.String(), t.Settle.String(),
		t.MaxInFlightPerService, t.KeepsOrder, t.Prepares && t.PreparesInOrder, claimTTL.String(), strategy.Name, max(1, strategy.Window), strconv.FormatBool(t.AddAgainHarmless),
		t.Withdraws,
	}
}

// Same reports whether two settings are equal except for the service.
func (s Settings) Same(as Settings) bool {
	as.Service = s.Service
	return s == as
}

// Read parses a record.
func Read(text string) (r Record, err error) {
	if err = json.Unmarshal([]byte(text), &r); err != nil {
		return Record{}, fmt.Errorf("the recorded traits: %w", err)
	}
	return r, nil
}

// Text returns the record in the form in which it is kept.
func (r Record) Text() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

// Quiet returns dlt.Traits.ResendQuiet.
func (s Settings) Quiet() (time.Duration, error) { return parseDuration("resend_quiet", s.ResendQuiet) }

// Rules returns how the process claims. q has no lanes and no limit, and counts for every service.
// known is false if the strategy is not one of package queuer: choose is nil then, and the window
// is 1.
func (s Settings) Rules() (q store.ClaimQuery, choose store.Choose, known bool, err error) {
	var rule store.Resend
	if rule.HarmlessFor = dlt.Forever; s.ResendHarmlessFor != "forever" {
		if rule.HarmlessFor, err = parseDuration("resend_harmless_for", s.ResendHarmlessFor); err != nil {
			return q, nil, false, err
		}
	}
	if rule.LateArrival, err = parseDuration("late_arrival", s.LateArrival); err != nil {
		return q, nil, false, err
	}
	if q.TTL, err = parseDuration("claim_ttl", s.ClaimTTL); err != nil {
		return q, nil, false, err
	}
	q.Resend = func(batch.ServiceID) store.Resend { return rule }
	q.MaxInFlight = func(batch.ServiceID) int { return s.MaxInFlightPerService }
	q.Numbered = func(batch.ServiceID) bool { return s.PreparesInOrder }
	strategy, ok := queuer.Named(s.Strategy, s.Window)
	if !ok {
		q.Window = 1
		return q, nil, false, nil
	}
	q.Window = s.Window
	keeps := func(batch.ServiceID) bool { return s.KeepsOrder }
	return q, queuer.Choose(strategy, keeps, func(batch.ServiceID, error) {}), true, nil
}

func parseDuration(field, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("the recorded traits: %s: %w", field, err)
	}
	return d, nil
}
