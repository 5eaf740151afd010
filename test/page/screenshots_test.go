package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/dts-sched/dts/internal/testkit"
)

// pictureLimit is how many bytes a picture in docs/images may have.
const pictureLimit = 60 << 10

// pictures are the files in docs/images: which page they show, and how.
var pictures = []struct {
	file, page    string
	width, height int64
	theme         string
	scale         float64 // pixels of the picture for one of the page
}{
	{"overview", "overview", 1200, 896, "light", 1.25},
	{"overview-dark", "overview", 1200, 896, "dark", 1.25},
	{"schedules", "schedules", 1200, 860, "light", 1.25},
	{"schedule", "schedule", 1200, 612, "light", 1.25},
	{"task", "task", 1200, 714, "light", 1.25},
	{"edit", "edit", 1200, 780, "light", 1.25},
	{"run", "run", 1200, 1000, "light", 1.25},
	{"workflow", "workflow", 1200, 860, "light", 1.25},
	{"overview-phone", "overview", 390, 844, "light", 1.5},
	{"task-phone", "task", 390, 844, "dark", 1.5},
}

// saved serves pages that the test of the same name in internal/web has written, with a stream that says that they
// are live.
func saved(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "text/event-stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("event: state\ndata: \"live\"\n\n"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/page/")
		text, err := os.ReadFile(filepath.Join(dir, filepath.Base(url.PathEscape(name))))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		kinds := map[string]string{".css": "text/css", ".js": "text/javascript", "": "text/html; charset=utf-8"}
		w.Header().Set("Content-Type", kinds[filepath.Ext(name)])
		_, _ = w.Write(text)
	})
}

// TestScreenshots writes the pictures of docs/images. It has a clock that stands, so that they are the same each time.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		t.Skip("`make screenshots` runs it")
	}
	if missing != "" {
		t.Fatal(missing)
	}
	server := httptest.NewServer(saved(dir))
	t.Cleanup(server.CloseClientConnections) // the streams
	b := (&node{t: t}).openTab()
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `Date.now = () => 0`,
	})
	for _, p := range pictures {
		b.look(p.width, p.theme)
		call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: p.width, Height: p.height, DeviceScaleFactor: p.scale, Mobile: p.width < 500,
		})
		b.openURL(server.URL + "/page/" + p.page)
		b.await("footer", "Keys") // the script has run
		isForm := p.page == "edit" || p.page == "workflow"
		if !isForm && p.width > 500 {
			b.await("#live", "Live")
		}
		image := b.capture()
		file := filepath.Join("..", "..", "docs", "images", p.file+".webp")
		testkit.Must(t, os.WriteFile(file, image, 0o600))
		if t.Logf("%s has %d bytes", p.file, len(image)); len(image) > pictureLimit {
			t.Errorf("%s has %d bytes, more than %d", file, len(image), pictureLimit)
		}
	}
}

// capture is a picture of what the tab shows, as WebP: the best that is small enough, or the worst.
func (b *tab) capture() (image []byte) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testkit.Limit)
	defer cancel()
	for quality := int64(90); quality >= 30; quality -= 10 {
		shot, err := chromedp.Run(ctx, chromedp.Action[page.CaptureScreenshotResult](
			func(ctx context.Context, t *chromedp.Target) (page.CaptureScreenshotResult, error) {
				return cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
					Format: page.CaptureScreenshotFormatWebp, Quality: &quality,
				})
			}))
		testkit.Must(b.t, err)
		if image = shot.Data; len(image) <= pictureLimit {
			b.t.Logf("quality %d", quality)
			break
		}
	}
	return image
}
