module github.com/dltbatch/dltbatch/internal/browser

go 1.26.0

require (
	github.com/dltbatch/dltbatch v0.0.0
)

replace github.com/dltbatch/dltbatch => ../..
