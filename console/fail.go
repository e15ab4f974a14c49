package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// refusal is the error of a request that the console does not carry out. Pages show its texts.
type refusal struct {
	status      int
	title, text string
}

// Error implements error.
func (e *refusal) Error() string { return e.title + ": " + e.text }

// failure is the body of the page about an error.
type failure struct {
	Text string
	// To is the address of a page that helps, and Name its label; both are "" if there is none.
	To, Name string
}

// errorPage returns the page about an error.
func (v *visit) errorPage(ctx context.Context, err error) *answer {
	r, f := explainError(err)
	if r.status == http.StatusServiceUnavailable && v.request.Context().Err() == nil {
		v.log.ErrorContext(ctx, "console: the store failed", slog.String("page", v.request.URL.Path), slog.Any("error", err))
	}
	if v.request.Method == http.MethodPost && r.status >= http.StatusInternalServerError {
		r.text += " It is not known whether the act was done: look before you do it again, which is harmless."
	}
	f.Text = r.text
	return &answer{status: r.status, page: "fail", title: r.title, body: f}
}

// explainError puts an error into words. An error that this package does not know is not shown: it
// may quote the address of a database.
func explainError(err error) (refusal, failure) {
	const nothingDone = "Nothing was done"
	var body failure
	if own, is := errors.AsType[*refusal](err); is {
		return *own, body
	}
	if moved, is := errors.AsType[*batch.MovedOnError](err); is {
		text, body := explainMovedOn(moved)
		return refusal{http.StatusConflict, nothingDone, text}, body
	}
	if in, is := errors.AsType[*batch.InputError](err); is {
		text := fmt.Sprintf("%s is wrong: want %s.", in.Field, in.Want)
		if in.Value != "" {
			text = fmt.Sprintf("%s %q is wrong: want %s.", in.Field, in.Value, in.Want)
		}
		return refusal{http.StatusBadRequest, "The request is wrong", text}, body
	}
	if _, is := errors.AsType[*loop.PanicError](err); is {
		return refusal{http.StatusInternalServerError, "The database failed", "The store or its driver panicked. The log of the console's process has the panic."}, body
	}
	if s, is := errors.AsType[*operator.SettingsError](err); is {
		body.To, body.Name = pageLink("lane", "service", string(s.Service))+"#settings", "the settings on record"
		return refusal{http.StatusConflict, "The settings are not known", settingsText(s)}, body
	}
	for _, known := range []struct {
		err    error
		status int
		title  string
		text   string
	}{
		{batch.ErrNotFound, http.StatusNotFound, "No such batch", "It was never stored, or retention has removed it."},
		{batch.ErrMovedOn, http.StatusConflict, nothingDone, "It has changed since you saw it. Look at it again, and decide about that."},
		{batch.ErrInDoubt, http.StatusConflict, nothingDone, "An attempt may still take effect, so the batch can neither be cancelled nor given up yet."},
		{batch.ErrNotAllowed, http.StatusConflict, nothingDone, "The state of the batch does not allow this."},
		{operator.ErrNotRecorded, http.StatusConflict, nothingDone, "No instance has recorded the settings of this lane's ledger yet. An instance of this version that serves the lane records them."},
		{operator.ErrDisagree, http.StatusConflict, nothingDone, "The instances disagree about the settings of this lane's ledger. Correct the instance that is wrong, and then say so under the settings of its lane."},
		{store.ErrUnsupported, http.StatusNotImplemented, "This store cannot do it", "The store of this console lacks the ability for it. The stores of this module have all of them."},
		{context.DeadlineExceeded, http.StatusGatewayTimeout, "It took too long", "The database did not answer in time."},
	} {
		if errors.Is(err, known.err) {
			return refusal{known.status, known.title, known.text}, body
		}
	}
	return refusal{http.StatusServiceUnavailable, "The database failed", "It was not reached, or gave an error. The log of the console's process has the error."}, body
}

// explainMovedOn says what has changed, and leads to the page that shows the present state.
func explainMovedOn(e *batch.MovedOnError) (text string, f failure) {
	const lookAgain = " Look at it again, and decide about that."
	switch now := e.Now; {
	case now.ID == "":
		f.To, f.Name = scopeLink(e.Control.Scope), e.Control.Scope.String()+" as it is now"
		return "It has changed since you saw it." + lookAgain, f
	case now.Version == e.Seen:
		text = "The batch has changed since you saw it: it was removed and added again."
	default:
		text = fmt.Sprintf("The batch has changed since you saw it: it was at version %d and is %s at version %d now.", e.Seen, now.State, now.Version)
	}
	f.To, f.Name = batchLink(e.Now.Key), "the batch as it is now"
	return text + lookAgain, f
}

// settingsText puts a [operator.SettingsError] into words.
func settingsText(e *operator.SettingsError) string {
	text := fmt.Sprintf("The answer rests on %s of %s, ", e.Setting, batch.Only(e.Service))
	if errors.Is(e, operator.ErrDisagree) {
		return text + "and the instances disagree about it. Correct the instance that is wrong, and then say so under the settings of its lane."
	}
	return text + "which is not on record: " + e.Why + ". An instance of this version that serves the lane records it."
}
