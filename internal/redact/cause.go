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
	Err  error // the cause, whose own text may hold secrets
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ShownError makes an error of an HTTP client fit to be shown. It cuts every part of the URLs in
// its text that may be a secret; hide removes all other secrets, among them the keys in the path
// of an endpoint's own URL, and bounds the text. The returned error wraps what net/http's own
// error wraps, and not net/http's error, which has the whole URL in a field.
func ShownError(err error, hide func(string) string) *Error {
	text := err.Error()
	for u, ok := errors.AsType[*url.Error](err); ok; u, ok = errors.AsType[*url.Error](err) {
		text = strings.ReplaceAll(text, strconv.Quote(u.URL), strconv.Quote(bareURL(u.URL)))
		err = u.Err
	}
	return &Error{Text: hide(text), Err: err}
}

// bareURL returns a URL without user, password, query and fragment.
func bareURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(unreadable URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
