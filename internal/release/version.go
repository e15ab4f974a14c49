// Package release has the version of this module.
package release

import "runtime/debug"

// Version is the version of this tree. The checklist of MAINTAINERS.md sets it.
const Version = "v0.1.0"

const module = "github.com/dltbatch/dltbatch"

// Running returns the version of this module in the running program: the one that the build
// records, or Version if the build records none, as in a program that was built in a checkout.
func Running() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Version
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return Version
}
