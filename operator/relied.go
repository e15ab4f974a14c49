package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

// Errors of a Desk that needs settings which Runners record. A [*SettingsError] wraps one of them.
var (
	// ErrNotRecorded: no Runner has recorded its settings, or the record does not hold for the
	// service. A Runner that serves the service records its settings, or compares its own traits
	// for the service with the recorded ones and records the result. Once it has done so for 17
	// services and found no difference, the record holds for every service. If traits differ by
	// service, the record holds only for the services that it names. A Runner's own Explain and
	// Requeue need no record.
	ErrNotRecorded = errors.New("operator: not on record")
	// ErrDisagree: Runners recorded different settings. [Desk.Settings] shows them. Once no
	// process has the other settings any more, a person says so with [Desk.Agree].
	ErrDisagree = errors.New("operator: the instances disagree")
)

// SettingsError names the setting that a Desk needs and does not know. [Desk.Settings] shows the
// record.
type SettingsError struct {
	Service batch.ServiceID
	Ledger  string // the ledger that serves the service; "" if none is recorded
	Setting string // the name of the setting, such as "resend_quiet"
	Why     string
	Err     error // ErrNotRecorded or ErrDisagree
}

// Error implements error.
func (e *SettingsError) Error() string {
	s := fmt.Sprintf("%s: %s of %s", e.Err, e.Setting, batch.Only(e.Service))
	if e.Ledger != "" {
		s += fmt.Sprintf(" (ledger %q)", batch.Excerpt(e.Ledger, 64))
	}
	return s + ": " + e.Why
}

// Unwrap returns ErrNotRecorded or ErrDisagree.
func (e *SettingsError) Unwrap() error { return e.Err }

// Settings is the record of the settings that Runners use for a service.
type Settings struct {
	Service batch.ServiceID `json:"service"`
	// Ledger is the name of the ledger that serves the service; "" if no Runner has taken batches
	// of the service yet.
	Ledger string `json:"ledger"`
	// Kept is the record under that name, as JSON: the settings of the Runner that wrote last. If
	// they replaced different settings, "other" and "further" hold the first eight of the former
	// settings, and "more" says that there were more. "alike" names services that were compared
	// and have these settings, too. "varies" says that the route has services with other traits.
	// Kept is "" if there is no record.
	Kept string `json:"kept"`
	// Disagree is true if other settings are on record, and no person has agreed on these yet.
	Disagree bool `json:"disagree"`
}

// Settings returns the record of the settings that Runners use for a service.
func (d *Desk) Settings(ctx context.Context, service batch.ServiceID) (Settings, error) {
	r, err := d.readServiceRecord(ctx, service)
	if err != nil {
		return Settings{}, fmt.Errorf("settings of %s: %w", batch.Only(service), err)
	}
	return Settings{Service: service, Ledger: r.ledger, Kept: r.text, Disagree: r.Disagree(neverSame)}, nil
}

// Agree says that no process uses the other settings any more: an instance with a wrong setting
// was corrected, or all instances were replaced. Agree removes the other settings from the record
// that the person saw, and adds the person's name to it. If the record has changed since, Agree
// does nothing, and the error is [batch.ErrMovedOn]. If the person is wrong, a requeued batch may
// be sent too early, and explanations may be wrong.
func (d *Desk) Agree(ctx context.Context, seen Settings, by batch.By) error {
	if err := by.Validate(); err != nil {
		return fmt.Errorf("agree: %w", err)
	}
	if seen.Kept == "" {
		return fmt.Errorf("agree: %w: ledger %q", ErrNotRecorded, batch.Excerpt(seen.Ledger, 64))
	}
	record, err := relied.Read(seen.Kept)
	if err != nil {
		return fmt.Errorf("agree: %w", err)
	}
	by.Reason = batch.Excerpt(by.Reason, batch.MaxErrorText)
	text, err := record.WithAgreement(by).Text()
	if err != nil {
		return fmt.Errorf("agree: %w", err)
	}
	kept, err := texts.Read(ctx, d.store, store.TextTraits, seen.Ledger)
	if err != nil {
		return fmt.Errorf("agree: %w", err)
	}
	if kept.Body == text {
		return nil // an earlier call did this, and its answer was lost
	}
	did := false
	if kept.Body == seen.Kept {
		kept.Body = text
		if did, err = d.store.SwapTexts(ctx, kept); err != nil {
			return fmt.Errorf("agree: %w", err)
		}
	}
	if !did {
		now, err := texts.Read(ctx, d.store, store.TextTraits, seen.Ledger)
		return fmt.Errorf("agree: %w: the record of %q is %s", errors.Join(batch.ErrMovedOn, err), batch.Excerpt(seen.Ledger, 64), now.Body)
	}
	return nil
}

// serviceRecord is the record about a service.
type serviceRecord struct {
	service batch.ServiceID
	ledger  string // "" if no ledger is recorded
	text    string // "" if no settings are recorded
	relied.Record
}

func (d *Desk) readServiceRecord(ctx context.Context, service batch.ServiceID) (serviceRecord, error) {
	names, err := texts.Serve(ctx, d.store, []texts.Served{{Service: service}})
	if err != nil {
		return serviceRecord{}, err
	}
	return d.newServiceRecord(ctx, service, names[0], map[string]string{})
}

// newServiceRecord returns the record about a service of a ledger. The map records caches the
// texts that were read, by the name of the ledger.
func (d *Desk) newServiceRecord(ctx context.Context, service batch.ServiceID, ledger string, records map[string]string) (r serviceRecord, err error) {
	r.service, r.ledger = service, ledger
	if ledger == "" {
		return r, nil
	}
	text, known := records[ledger]
	if !known {
		kept, err := texts.Read(ctx, d.store, store.TextTraits, ledger)
		if err != nil {
			return r, err
		}
		text = kept.Body
		records[ledger] = text
	}
	if r.text = text; text != "" {
		r.Record, err = relied.Read(text)
	}
	return r, err
}

// checkUsable returns an error if settings are not on record, do not hold for this service, or
// differ between Runners. The function same reports whether two settings are equal as far as the
// caller uses them.
func (r serviceRecord) checkUsable(setting string, same func(a, b relied.Settings) bool) error {
	fail := func(err error, why string) error {
		return &SettingsError{Service: r.service, Ledger: r.ledger, Setting: setting, Why: why, Err: err}
	}
	switch {
	case r.ledger == "":
		return fail(ErrNotRecorded, "no instance has taken batches of the lane yet")
	case r.text == "":
		return fail(ErrNotRecorded, "no instance has recorded its settings")
	case r.Holds(r.service):
	case r.Varies:
		return fail(ErrNotRecorded, fmt.Sprintf("the traits of this route differ by service, and those of %s are on record", batch.Only(r.Service)))
	default:
		return fail(ErrNotRecorded, fmt.Sprintf("the traits of %s are on record, and no instance has compared those of this service with them yet", batch.Only(r.Service)))
	}
	if r.Disagree(same) {
		return fail(ErrDisagree, "an instance has recorded other settings, and nobody has agreed on these")
	}
	return nil
}

// neverSame makes any two recorded settings count as different.
func neverSame(_, _ relied.Settings) bool { return false }

// resendQuiet returns the ResendQuiet of a service's ledger.
func (d *Desk) resendQuiet(ctx context.Context, service batch.ServiceID) (time.Duration, error) {
	r, err := d.readServiceRecord(ctx, service)
	if err != nil {
		return 0, err
	}
	if err := r.checkUsable("resend_quiet", func(a, b relied.Settings) bool { return a.ResendQuiet == b.ResendQuiet }); err != nil {
		return 0, err
	}
	return r.Quiet()
}

// canWithdraw reports whether a service's ledger can prevent a batch from taking effect, and
// returns the ledger's name.
func (d *Desk) canWithdraw(ctx context.Context, service batch.ServiceID) (can bool, ledger string, err error) {
	r, err := d.readServiceRecord(ctx, service)
	if err == nil {
		err = r.checkUsable("withdraws", func(a, b relied.Settings) bool { return a.Withdraws == b.Withdraws })
	}
	return r.Withdraws, r.ledger, err
}
