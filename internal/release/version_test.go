package release

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOf(t *testing.T) {
	own := func(version string) debug.Module { return debug.Module{Path: module, Version: version} }
	dep := own("v0.2.0")
	fork := own("v0.1.0")
	fork.Replace = &debug.Module{Path: "example.com/fork", Version: "v0.1.1"}
	folder := own("v0.3.0")
	folder.Replace = &debug.Module{Path: "../dltbatch"}
	for name, c := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"a checkout":           {debug.BuildInfo{Main: own("(devel)")}, Version},
		"nothing is known":     {debug.BuildInfo{}, Version},
		"go install":           {debug.BuildInfo{Main: own("v0.1.2")}, "v0.1.2"},
		"a dependency":         {debug.BuildInfo{Main: debug.Module{Path: "example.com/shop", Version: "(devel)"}, Deps: []*debug.Module{&dep}}, "v0.2.0"},
		"replaced by a fork":   {debug.BuildInfo{Deps: []*debug.Module{&fork}}, "v0.1.1"},
		"replaced by a folder": {debug.BuildInfo{Deps: []*debug.Module{&folder}}, Version},
	} {
		assert.Equal(t, c.want, versionOf(&c.info), name)
	}
}
