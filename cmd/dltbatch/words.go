package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// some returns a list that is no null in JSON.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

type stringer interface{ String() string }

func words[T stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}

func join[T stringer](list []T) string { return strings.Join(words(list), ", ") }

// parse reads words such as the names of states.
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

// complete completes the values of a flag.
func complete(c *cobra.Command, flag string, values []string) {
	// The error says that the flag does not exist, or has completions already: see the test.
	_ = c.RegisterFlagCompletionFunc(flag, fixed(values))
}

func fixed(values []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}
