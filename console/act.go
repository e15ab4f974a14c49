package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/legible"
	"github.com/dltbatch/dltbatch/operator"
)

// actingPerson returns who acts, and why.
func (v *visit) actingPerson() (batch.By, error) {
	by := batch.By{Actor: v.person, Reason: strings.TrimSpace(v.form.Get("reason"))}
	if by.Reason == "" {
		return by, &refusal{http.StatusBadRequest, "Nothing was done", "Give a reason: the history keeps it."}
	}
	return by, nil
}

// checkConfirmed returns an error unless the person typed the word want.
func checkConfirmed(form url.Values, want string) error {
	if want != "" && strings.TrimSpace(form.Get("confirm")) != want {
		return &refusal{http.StatusBadRequest, "Nothing was done", "It was not confirmed: the word " + strconv.Quote(batch.Excerpt(want, 64)) + " has to be typed."}
	}
	return nil
}

// carryOutAct carries out a form, upon the version that the person saw.
func carryOutAct(ctx context.Context, v *visit) (*answer, error) {
	by, err := v.actingPerson()
	if err != nil {
		return nil, err
	}
	do, all := batch.Action(v.form.Get("do")), v.form.Get("all") != ""
	want := confirmWord(do, all, v.form.Get("ruling"))
	switch do {
	case batch.ActionPause, batch.ActionSetPolicy:
		if lane := batch.ServiceID(v.form.Get("service")); !all && batch.Only(lane).Validate() == nil {
			known, err := v.desk.KnowsLane(ctx, lane)
			if err != nil {
				return nil, err
			}
			if !known {
				want = string(do)
			}
		}
	}
	if err := checkConfirmed(v.form, want); err != nil {
		return nil, err
	}
	to, err := "", error(nil)
	switch do {
	case batch.ActionCancel, batch.ActionRequeue, batch.ActionDecide, batch.ActionWithdraw, batch.ActionAcquit:
		to, err = v.actUponBatch(ctx, do, by)
	case batch.ActionPause, batch.ActionResume, batch.ActionSetPolicy, batch.ActionRelease:
		to, err = v.actUponLane(ctx, do, by)
	case actAgree:
		seen := operator.Settings{Service: batch.ServiceID(v.form.Get("service")), Ledger: v.form.Get("ledger"), Kept: v.form.Get("kept")}
		to, err = pageLink("lane", "service", string(seen.Service))+"#settings", v.desk.Agree(ctx, seen, by)
	default:
		err = &batch.InputError{Field: "do", Value: batch.Excerpt(string(do), 64), Want: "an act that the console offers"}
	}
	// An act may have been done although its answer was lost.
	v.forgetReads()
	v.clockAndPause.forget()
	if err != nil {
		return nil, err
	}
	return &answer{redirectTo: to}, nil
}

// actUponBatch acts upon a batch and returns the address of the page to show next.
func (v *visit) actUponBatch(ctx context.Context, do batch.Action, by batch.By) (string, error) {
	seen, err := seenBatch(v.form)
	if err != nil {
		return "", err
	}
	switch do {
	case batch.ActionCancel:
		_, err = v.desk.Cancel(ctx, seen, by)
	case batch.ActionWithdraw:
		_, err = v.desk.Withdraw(ctx, seen, by)
	case batch.ActionAcquit:
		_, err = v.desk.Acquit(ctx, seen, by)
	case batch.ActionDecide:
		_, err = v.desk.Decide(ctx, seen, batch.Ruling(v.form.Get("ruling")), by)
	default:
		_, err = v.desk.Requeue(ctx, seen, by)
	}
	return pageLink("batch", "service", string(seen.Service), "id", string(seen.ID), "done", string(do)) + "#done", err
}

// actUponLane acts upon a lane or everything and returns the address of the page to show next.
func (v *visit) actUponLane(ctx context.Context, do batch.Action, by batch.By) (string, error) {
	seen, err := seenControl(v.form)
	if err != nil {
		return "", err
	}
	switch do {
	case batch.ActionPause:
		_, err = v.desk.Pause(ctx, seen.Scope, by)
	case batch.ActionResume:
		_, err = v.desk.Resume(ctx, seen, by)
	case batch.ActionRelease:
		_, err = v.desk.Release(ctx, seen, by)
	default:
		var p []batch.Policy
		if p, err = parse[batch.Policy]([]string{v.form.Get("policy")}); err != nil {
			return "", err
		}
		if len(p) == 0 {
			return "", &batch.InputError{Field: "policy", Want: "default, continue, halt or quarantine"}
		}
		_, err = v.desk.SetPolicy(ctx, seen, p[0], by)
	}
	return scopeLink(seen.Scope) + "&done=" + url.QueryEscape(string(do)) + "#done", err
}

// parseVersion reads the version that a form names.
func parseVersion(form url.Values) (int64, error) {
	text := form.Get("version")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, &batch.InputError{Field: "version", Value: batch.Excerpt(text, 64), Want: "the version that the page showed"}
	}
	return n, nil
}

// seenBatch returns the batch that the person saw.
func seenBatch(form url.Values) (rec batch.Record, err error) {
	if rec.Version, err = parseVersion(form); err != nil {
		return rec, err
	}
	rec.Service, rec.ID = batch.ServiceID(form.Get("service")), batch.ID(form.Get("id"))
	if rec.CreatedAt, err = time.Parse(time.RFC3339Nano, form.Get("created")); err != nil {
		return rec, &batch.InputError{Field: "created", Value: batch.Excerpt(form.Get("created"), 64), Want: "the time that the page showed"}
	}
	return rec, nil
}

// seenControl returns the control that the person saw.
func seenControl(form url.Values) (c batch.Control, err error) {
	if c.Version, err = parseVersion(form); err != nil {
		return c, err
	}
	if c.Scope = batch.Only(batch.ServiceID(form.Get("service"))); form.Get("all") != "" {
		c.Scope = batch.Everything()
	}
	return c, nil
}

// whyNot returns the reason why an act is not possible; "" if it is possible.
func whyNot(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, batch.ErrInDoubt):
		return "An attempt may still take effect. " + textWithoutKind(err, batch.ErrInDoubt)
	}
	return textWithoutKind(err, batch.ErrNotAllowed)
}

// textWithoutKind returns the text of an error without its kind.
func textWithoutKind(err, kind error) string {
	text := strings.TrimPrefix(err.Error(), kind.Error()+": ")
	return legible.Sentences(strings.ToUpper(text[:1]) + text[1:])
}
