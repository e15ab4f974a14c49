package redact

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// Error is an error whose text may be shown.
type Error struct {
	Text string
	Err  error // the cause; its own text may hold secrets
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ShownError makes an error of an HTTP client fit to be shown. The URLs in its text lose every
// part that may be a secret in any URL; hide removes all other secrets, among them the keys in the
// path of an endpoint's own URL, and bounds the text. The error that is returned wraps what
// net/http's own error wraps, but not that one: it has the whole URL in a field.
func ShownError(err error, hide func(string) string) *Error {
	text := err.Error()
	for u, ok := errors.AsType[*url.Error](err); ok; u, ok = errors.AsType[*url.Error](err) {
		text = strings.ReplaceAll(text, strconv.Quote(u.URL), strconv.Quote(bareURL(u.URL)))
		err = u.Err
	}
	return &Error{Text: hide(text), Err: err}
}

// bareURL drops user, password, query and fragment.
func bareURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(unreadable URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
