package batch

import (
	"slices"
	"strings"
)

// States, policies and similar values are stored as numbers, and written as words in JSON and any
// other text, because a number would mean nothing to a reader, and perhaps something else to
// another version. A word is exactly the text of String.

// wordOf returns the word of a value, or "" for a zero value that has no word.
func wordOf[T ~uint8](field string, v T, words []string, name func() string) ([]byte, error) {
	if int(v) >= len(words) {
		return nil, &InputError{Field: field, Value: name(), Want: oneOf(words)}
	}
	return []byte(words[v]), nil
}

// parseWord sets v to the value of a word.
func parseWord[T ~uint8](field string, v *T, words []string, word []byte) error {
	i := slices.Index(words, string(word))
	if i < 0 {
		return &InputError{Field: field, Value: Excerpt(string(word), 64), Want: oneOf(words)}
	}
	*v = T(i)
	return nil
}

func oneOf(words []string) string {
	return "one of " + strings.Join(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" }), ", ")
}

// MarshalText returns the state's name in lower case; nothing for the zero value, which is
// no state. The error is an [*InputError].
func (s State) MarshalText() ([]byte, error) { return wordOf("State", s, stateNames[:], s.String) }

// UnmarshalText reads the output of MarshalText. The error is an [*InputError].
func (s *State) UnmarshalText(word []byte) error {
	return parseWord("State", s, stateNames[:], word)
}

// MarshalText returns the policy in lower case. The error is an [*InputError].
func (p Policy) MarshalText() ([]byte, error) { return wordOf("Policy", p, policyNames[:], p.String) }

// UnmarshalText reads the output of MarshalText. The error is an [*InputError].
func (p *Policy) UnmarshalText(word []byte) error {
	return parseWord("Policy", p, policyNames[:], word)
}

// MarshalText returns the actor's name, "nobody" for the zero value. The error is an
// [*InputError].
func (a Actor) MarshalText() ([]byte, error) { return wordOf("Actor", a, actorNames[:], a.String) }

// UnmarshalText reads the output of MarshalText. The error is an [*InputError].
func (a *Actor) UnmarshalText(word []byte) error {
	return parseWord("Actor", a, actorNames[:], word)
}

// MarshalText returns the word in lower case; nothing for the zero value, which is no
// answer. The error is an [*InputError].
func (r Reported) MarshalText() ([]byte, error) {
	return wordOf("Reported", r, reportedNames[:], r.String)
}

// UnmarshalText reads the output of MarshalText. The error is an [*InputError].
func (r *Reported) UnmarshalText(word []byte) error {
	return parseWord("Reported", r, reportedNames[:], word)
}
