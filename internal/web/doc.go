// Package web is the page of DTS: what people see and do in a browser, over the use cases of package control.
//
//	request   routes, problems as pages             site.go, live.go
//	          forms and what they do                form.go, actions.go, once.go
//	   |
//	page      what it reads, and its sentences      pages.go, then overview.go, schedules.go, ...
//	   |
//	shared    states and results in words           states.go
//	          coming ticks, the last hour           ticks.go, hour.go
//	          what readers type                     fields.go
//	          drawings                              strip.go, calendar.go, chart.go
//	          times and numbers, helpers of markup  format.go, markup.go
//	          who reads; the layout                 visit.go, view.go
//	          what is sent, in one pass             output.go
//	          languages                             texts.go
//	   |
//	markup    one file a page, and shared parts     templates/*.html
//
// A page is a row of the table pages: it names the function that reads the data and chooses the sentences, and the
// template. Pages of one subject share a Go file, as bulk.go. What forms do is a row of the table actions, with what is
// said afterwards. All of it works without JavaScript; assets/page.js makes it live (live.go).
// Links and forms keep the namespace that the reader has chosen (namespace.go), and have the base path (output.go).
//
// The page find is "Go to" on screen. Where only one thing matches, it redirects there: its data is an elsewhere.
//
// Texts are written in English where they are used. texts_zh*.go have them in Chinese, and a test finds what is
// missing.
//
// A new page takes four files: its row of the table pages, which also has its link of the bar and the bound of its
// round trips; a Go file that reads its data; a template of the same name; and the Chinese of its texts. Tests open the
// example of the row, and write its file of testdata/golden with -update.
package web
