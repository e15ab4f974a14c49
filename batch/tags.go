package batch

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// The bounds of [Tags].
const (
	MaxTags     = 16  // most tags of one batch
	MaxTagName  = 64  // bytes
	MaxTagValue = 256 // bytes
)

// Tags are the application's names for a batch, such as {"invoice": "4711", "customer": "77"}, so
// that people find it: values by name. The store keeps them with the batch and has an index of
// them; they are not sent to the ledger. A secret does not belong there: tags show in lists.
//
// Tags are no part of what makes two batches the same: a batch that is added again with other tags
// counts as stored, and the stored batch keeps its tags. They cannot be changed, and go with the
// batch when retention removes it.
type Tags map[string]string

// Validate reports whether a store takes the tags: at most [MaxTags], each as [Tag.Validate] says.
// The error is an [*InputError].
func (t Tags) Validate() error {
	if len(t) > MaxTags {
		return &InputError{Field: "Tags", Value: numberText(len(t)) + " tags", Want: "at most " + numberText(MaxTags)}
	}
	for name, value := range t {
		if name == "" {
			return &InputError{Field: "Tags", Value: "a tag without a name", Want: "a name"}
		}
		if err := (Tag{name, value}).Validate(); err != nil {
			return err
		}
	}
	return nil
}

// String returns the tags in the order of their names, such as "customer=77, invoice=4711".
func (t Tags) String() string {
	all := make([]string, 0, len(t))
	for _, name := range slices.Sorted(maps.Keys(t)) {
		all = append(all, name+"="+t[name])
	}
	return strings.Join(all, ", ")
}

// Tag is one of a batch's [Tags]. As a condition, an empty name stands for any name.
type Tag struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ParseTag reads "name=value", or a value alone, which may then be under any name.
func ParseTag(s string) (Tag, error) {
	name, value, named := strings.Cut(s, "=")
	if !named {
		name, value = "", s
	} else if name == "" {
		return Tag{}, &InputError{Field: "Tag", Value: Excerpt(s, 64), Want: "name=value, or a value"}
	}
	t := Tag{Name: name, Value: value}
	return t, t.Validate()
}

// Validate reports whether a batch can have the tag: a name of at most [MaxTagName] bytes without
// "=", and a value of 1 to [MaxTagValue] bytes, both printable text. The error is an
// [*InputError].
func (t Tag) Validate() error {
	if err := CheckText("Tags", t.Name, MaxTagName); err != nil {
		return tagError(err, Excerpt(t.Name, 64), "a name: ")
	}
	if strings.Contains(t.Name, "=") {
		return &InputError{Field: "Tags", Value: t.Name, Want: `a name without "="`}
	}
	if t.Value == "" {
		return &InputError{Field: "Tags", Value: t.Name + "=", Want: "a value"}
	}
	return tagError(CheckText("Tags", t.Value, MaxTagValue), Tag{t.Name, Excerpt(t.Value, 64)}.String(), "a value: ")
}

// tagError adds to an error of CheckText which tag, and which part of the tag, the error is about.
func tagError(err error, shown, part string) error {
	if in, ok := errors.AsType[*InputError](err); ok {
		in.Value, in.Want = shown, part+in.Want
	}
	return err
}

// String returns the tag as [ParseTag] reads it.
func (t Tag) String() string {
	if t.Name == "" {
		return t.Value
	}
	return t.Name + "=" + t.Value
}
