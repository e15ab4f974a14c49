package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/leak"
)

// pictureFolder is the folder for pictures: they are made on demand, so that tests leave the tree
// as it is.
var pictureFolder = flag.String("browser.docs", "", "the `folder` for pictures of the pages; none are made without")

// chrome is the browser of all tests. Each test has a tab of its own, without cookies.
var chrome struct {
	ctx  context.Context // chromedp takes its handle of a browser as a context
	stop func()
	axe  string
}

// buildDir is the folder into which the command is built.
var buildDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	var err error
	if buildDir, err = os.MkdirTemp("", "dltbatch-browser-"); err == nil {
		defer func() { _ = os.RemoveAll(buildDir) }() // a temporary folder
		err = startBrowser()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return leak.Check(m, chrome.stop)
}

// startBrowser starts the browser.
func startBrowser() error {
	bin, err := binaries.Chromium().Bring()
	if err != nil {
		return err
	}
	axe, err := binaries.Axe().Bring()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(axe)
	if err != nil {
		return err
	}
	chrome.axe = string(text)
	options := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{chromedp.ExecPath(bin), chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Flag("hide-scrollbars", true)})
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root has no sandbox; all pages come from the tests
	}
	all, stopAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(all)
	chrome.ctx, chrome.stop = ctx, func() {
		_ = chromedp.Cancel(ctx) // waits for the process
		stop()
		stopAll()
	}
	if err := chromedp.Do(ctx); err != nil {
		chrome.stop()
		return errors.Join(errors.New("chromium does not start"), err)
	}
	return nil
}
