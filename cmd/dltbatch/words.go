package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// notNull returns an empty list in place of nil, so that JSON has [] and not null.
func notNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

type stringer interface{ String() string }

func textsOf[T stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}

func join[T stringer](list []T) string { return strings.Join(textsOf(list), ", ") }

// parse reads values such as the names of states.
func parse[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](texts []string) ([]T, error) {
	var out []T
	for _, text := range texts {
		var v T
		if err := P(&v).UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("%w: %w", errUsage, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// completeFlag adds shell completion for the values of a flag.
func completeFlag(c *cobra.Command, flag string, values []string) {
	// An error would say that the flag does not exist or already has completions. A test covers
	// both.
	_ = c.RegisterFlagCompletionFunc(flag, fixedCompletions(values))
}

func fixedCompletions(values []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}
