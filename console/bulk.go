package console

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
)

// maxBulk is the largest number of batches in a browser's selection, since the form carries them
// all. The command has no such limit.
const maxBulk = 10_000

var bulkActions = []batch.Action{batch.ActionRequeue, batch.ActionCancel, batch.ActionDecide, batch.ActionAcquit}

// bulkStates are the states that at least one bulk action admits.
var bulkStates = []batch.State{batch.Queued, batch.Delayed, batch.Unknown, batch.Submitting, batch.Pending, batch.Valid, batch.Invalid, batch.Rejected}

var bulkCauses = []batch.Cause{
	batch.CauseReady, batch.CausePaused, batch.CauseHalted, batch.CauseDelayed, batch.CauseBehind, batch.CauseInFlight, batch.CauseHeld, batch.CauseUnserved,
	batch.CauseInDoubt, batch.CauseDecision, batch.CauseLedger, batch.CauseFinal, batch.CauseQuarantined, operator.CauseUnknown,
}

// bulkBody is the form of a bulk action, and its preview.
type bulkBody struct {
	Actions, Rulings, States, Kinds, Causes []formChoice
	Service                                 batch.ServiceID
	Tag, Older, Newer                       string
	Quarantined                             bool
	Wrong                                   string // the name of the invalid field; "" if none is
	// Selection is the preview; nil if none was asked for.
	Selection  *operator.Selection
	ActionName string
	N          int
	Rest       int    // number of batches that are not shown
	Packed     string // the selection for the form; if it is "", Not says why
	Not        string
}

// Narrowed reports whether states, kinds of errors or causes were chosen.
func (b bulkBody) Narrowed() bool {
	on := func(c formChoice) bool { return c.On }
	return slices.ContainsFunc(b.States, on) || slices.ContainsFunc(b.Kinds, on) || slices.ContainsFunc(b.Causes, on)
}

// bulkPage shows the form of a bulk action, and previews the action once one is chosen. It changes
// nothing.
func bulkPage(ctx context.Context, v *visit) (*answer, error) {
	b := bulkBody{
		Actions: textChoices(bulkActions, v.query["action"]), Rulings: rulingChoices(v.query["ruling"]), States: choices(bulkStates, v.query["state"]),
		Kinds: withSpaces(textChoices(batch.ErrorKinds(), v.query["error"])), Causes: textChoices(bulkCauses, v.query["cause"]),
		Tag: v.query.Get("tag"), Older: v.query.Get("older"), Newer: v.query.Get("newer"), Quarantined: v.query.Get("quarantined") != "",
	}
	for i := range b.Causes {
		b.Causes[i].Title = causeTitle(batch.Cause(b.Causes[i].Value))
	}
	service, err := serviceOf(v.query)
	if err != nil {
		return nil, err
	}
	b.Service = shownService(service)
	// A link from another page may leave the ruling open. Without it there is no preview yet.
	if v.query.Has("action") && (v.query.Get("action") != string(batch.ActionDecide) || v.query.Get("ruling") != "") {
		err := readPreview(ctx, v, &b, service)
		if in, is := errors.AsType[*batch.InputError](err); is { // the form is shown again as it was filled in
			r, _ := explainError(in)
			b.Wrong = r.text
			return &answer{status: r.status, page: "bulk", title: "Many batches at once", body: b}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return &answer{page: "bulk", title: "Many batches at once", body: b}, nil
}

// withSpaces turns names such as not_yet into words.
func withSpaces(list []formChoice) []formChoice {
	for i := range list {
		list[i].Title = strings.ReplaceAll(list[i].Title, "_", " ")
	}
	return list
}

func textChoices[T ~string](all []T, on []string) []formChoice {
	list := make([]formChoice, len(all))
	for i, v := range all {
		list[i] = formChoice{Value: string(v), Title: string(v), On: slices.Contains(on, string(v))}
	}
	return list
}

// rulingChoices returns the rulings of Decide, each with its statement.
func rulingChoices(on []string) []formChoice {
	list := textChoices(batch.Rulings(), on)
	for i, r := range batch.Rulings() {
		list[i].Title += ": " + r.Statement()
	}
	return list
}

// readPreview adds the batches that the action would act upon.
func readPreview(ctx context.Context, v *visit, b *bulkBody, service *batch.ServiceID) error {
	asked, err := parseBulk(v.query, service)
	if err != nil {
		return err
	}
	sel, err := v.desk.Preview(ctx, asked)
	if err != nil {
		return err
	}
	b.Selection, b.N, b.Rest, b.ActionName = &sel, len(sel.Batches), len(sel.Batches)-len(sel.First), bulkActName(asked)
	switch {
	case v.deniedReason != "":
		b.Not = v.deniedReason
	case b.N == 0:
	case b.N > maxBulk || sel.More:
		b.Not = "A browser takes " + strconv.Itoa(maxBulk) + " batches at most. Narrow the filter, or use the command: dltbatch bulk preview, and then dltbatch bulk run."
	default:
		b.Packed, err = packSelection(sel)
	}
	return err
}

// parseBulk reads the bulk action of a form.
func parseBulk(q url.Values, service *batch.ServiceID) (b operator.Bulk, err error) {
	b.Action = batch.Action(q.Get("action"))
	b.Filter.Service, b.Filter.Quarantined = service, q.Get("quarantined") != ""
	if b.Filter.States, err = parse[batch.State](q["state"]); err != nil {
		return b, err
	}
	if tag := strings.TrimSpace(q.Get("tag")); tag != "" {
		if b.Filter.Tag, err = batch.ParseTag(tag); err != nil {
			return b, err
		}
	}
	if b.Action == batch.ActionDecide {
		b.Ruling = batch.Ruling(q.Get("ruling"))
	}
	if b.Filter.Kinds, err = parseWords("error", batch.ErrorKinds(), q["error"]); err != nil {
		return b, err
	}
	if b.Filter.Causes, err = parseWords("cause", bulkCauses, q["cause"]); err != nil {
		return b, err
	}
	if b.Filter.OlderThan, err = parseDuration("older", q.Get("older")); err != nil {
		return b, err
	}
	b.Filter.NewerThan, err = parseDuration("newer", q.Get("newer"))
	return b, err
}

// parseWords reads the values of a list field; empty values are ignored.
func parseWords[T ~string](field string, all []T, texts []string) (list []T, err error) {
	for _, text := range texts {
		if text == "" {
			continue
		}
		if !slices.Contains(all, T(text)) {
			return nil, &batch.InputError{Field: field, Value: batch.Excerpt(text, 64), Want: "a word that the page offers"}
		}
		list = append(list, T(text))
	}
	return list, nil
}

func parseDuration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 { // 0 would mean no bound, although the person gave one
		return 0, &batch.InputError{Field: field, Value: batch.Excerpt(text, 64), Want: "a duration such as 90s, 15m or 2h30m"}
	}
	return d, nil
}

// bulkActName names an act upon many batches for people.
func bulkActName(b operator.Bulk) string {
	what := string(b.Action)
	if b.Ruling != "" {
		what += " " + string(b.Ruling)
	}
	return what
}
