package web

// chineseForms are the texts of forms that were refused, and of what cannot be done.
var chineseForms = map[string]string{
	"%d of its tasks have not ended":                                              "有 %d 个任务尚未结束",
	"A worker runs it: it cannot be moved. When it has ended, it can be retried.": "worker 正在运行它，不能移动。结束后可以重试。",
	"As YAML": "转为 YAML",
	"DTS has nothing in it now that could be paused or given a capacity.":    "DTS 在其中没有任务，无可暂停，也无从设置容量。",
	"It cannot be triggered now: %s, and its overlap policy is %s.":          "现在不能触发：%s，重叠策略为 %s。",
	"Fill in what runs, and when.":                                           "填写运行什么、何时运行。",
	"It has ended: it cannot be cancelled or moved.":                         "已结束，不能取消或移动。",
	"It has ended: no tick comes that could be paused.":                      "已结束，不再触发，无可暂停。",
	"It is asked to stop. When it has ended, it can be retried.":             "已要求停止。结束后可以重试。",
	"It is due already: below is what it waits for.":                         "已到期：下文说明它在等待什么。",
	"It is due already. When it has ended, it can be retried.":               "已到期。结束后可以重试。",
	"It is not known whether this was done":                                  "不知是否已执行",
	"It is not known whether this was done. Send it again: it is done once.": "不知是否已执行。请再次发送，只会执行一次。",
	"It was retried after this page was read, and has ended again. " +
		"Retry it if it is to run once more.": "打开此页面后它已被重试，且又已结束。如需再次运行，请重试。",
	"Edit it":    "编辑它",
	"Every":      "每隔",
	"Or by cron": "或按 cron 表达式",
	"No task here can be retried, moved or cancelled.":                         "这里没有可重试、移动或取消的任务。",
	"To retry or forget these tasks, choose a state in which they have ended.": "要重试或遗忘这些任务，请选择已结束的状态。",
	"is not kept, as somebody has paused the queue before":                     "未保存，因为队列此前已被他人暂停",
	"See what to know.": "请看需要注意的事项。",
	"By the jitter, each task is due up to %s later.": "由于抖动，每个任务最多推迟 %s 到期。",
	"The program and its arguments: each line is one argument, " +
		"or all are a list in JSON. No shell reads it.": "程序及其参数：每行一个参数，或写成 JSON 列表。不经过 shell 解释。",
	"begins with [, and is no list of texts in JSON, such as %s": "以 [ 开头，但不是 JSON 文本列表，例如 %s",
	"is missing: write a program and its arguments, one a line":  "缺失：请填写程序及其参数，每行一个",
	"is one line with blanks: write each argument on a line of its own. " +
		"If all of it is the name of a program, write the payload as JSON: %s": "只有一行且含空格：" +
		"请每行写一个参数。如果整行是程序名，请用 JSON 写载荷：%s",
	"It could not be checked.":                        "无法检查。",
	"All fields, in the API's documentation":          "全部字段（见 API 文档）",
	"is before %s":                                    "早于“%s”",
	"Nothing is wrong with what was looked at so far": "目前检查过的部分没有问题",
	"If the run before has not ended":                 "若上一次运行尚未结束",
	"If ticks were missed":                            "若错过了触发",
	"the fields of the type cannot have all of it":    "该类型的字段无法容纳全部内容",
	"The text cannot be read: check it first.":        "无法读取文本，请先检查。",
	"The fields cannot have %s of this text.":         "字段无法容纳此文本中的 %s。",
	"It was changed since it was checked, and is not put yet. " +
		"It is valid: see what it does.": "内容在检查后有更改，尚未提交。内容有效，请查看其效果。",
	"Go back in your browser: the form still has what you typed.": "请在浏览器中后退：表单仍保留您输入的内容。",
	"Or in a shell:":                                                 "或在命令行中：",
	"Send it again":                                                  "再次发送",
	"The form is too old":                                            "表单已过期",
	"There is no such page.":                                         "没有这个页面。",
	"must be a whole number from %d on":                              "必须是从 %d 开始的整数",
	"belongs to the fair key, which is missing":                      "须与公平键一起填写",
	"%s says when the task is due: leave the field %s empty":         "%s 决定任务何时到期：请将“%s”留空",
	"give an interval, as in 5m, or a cron expression":               "请填写间隔，如 5m，或 cron 表达式",
	"give an interval or a cron expression, not both":                "请填写间隔或 cron 表达式，不能同时填写",
	"must be a whole number from 0 to %d; 0 for any number of tasks": "必须是 0 到 %d 的整数；0 表示不限任务数",
	"%d ticks":                      "%d 次触发",
	"Waits, as its queue is paused": "等待中，因为它的队列已暂停",
	"It is a queue of asynq: asynqmon pauses it.":                                "这是 asynq 的队列，可在 asynqmon 中暂停。",
	"Somebody has deleted the schedule meanwhile. What you put creates it anew.": "期间有人删除了该计划。提交将重新创建它。",
	"Tasks that run can only be cancelled.":                                      "运行中的任务只能取消。",
	"The text has one schedule. It is written as in a file for dtsctl apply.":    "文本含一个计划，写法与 dtsctl apply 的文件相同。",
	"The text must have one schedule, and nothing else. Put several one after another, " +
		"or in a shell: dtsctl apply -f FILE.": "文本中必须只有一个计划，不能有其他内容。" +
		"多个请逐个提交，或执行 dtsctl apply -f FILE。",
	"This is what you have sent. " +
		"Send it again when Redis answers: it is done once.": "这是您发送的内容。请在 Redis 恢复后再次发送，只会执行一次。",
	"To forget tasks, choose a state in which they have ended.": "要清除任务，请选择已结束的状态。",
	"Use fields": "改用字段填写",
	"What you sent first was submitted as %s. " +
		"Send again to submit this as another task.": "您先前发送的内容已提交为 %s。再次发送将作为另一个任务提交。",
	"When it has ended, it can be retried.": "结束后可以重试。",

	"You sent this form twice; it was done once.":                                          "此表单您提交了两次，只执行了一次。",
	"You sent this form before, and it was done. Send it again to do it once more.":        "此表单之前已提交并完成。如需再执行一次，请再次发送。",
	"It has changed since this page was read. Send the form again if you still want this.": "打开此页面后它已改变。如仍需执行，请再次发送。",

	"Runs by hand and backfills do not count.":                    "不含手动触发和回填。",
	"Nothing needs somebody; %d attempts failed in the last hour": "没有需要处理的事，但最近一小时有 %d 次尝试失败",
}
