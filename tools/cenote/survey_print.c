/* SPDX-License-Identifier: MIT */
/*
 * Which processes share what, as a table for people.
 *
 * A row is something that a process shares, or below it a holder: a process that has imported, opened or mapped it. In
 * the former, SHARED is what can be had; in the latter, what the holder has. DEFERRED is what the owner has freed and
 * cannot have back yet: in a holder's row, because of that holder.
 *
 * A terminal that is too narrow for all columns gets fewer, and programs' names are cut: the columns for who, what, how
 * much, and what is waited for stay longest.
 */
#include "survey.h"

#include <stdlib.h>
#include <string.h>

enum column { PID, USER, PROGRAM, CONTAINER, WHAT, USED, RESERVED, SHARED, DEFERRED, SINCE, WAITED, COLUMN_COUNT };
enum { CELL_CHARS = 40, PROGRAM_COLUMNS_MIN = 8, PROGRAM_COLUMNS_MAX = 15, TEXT_CHARS = 256 };

static const struct {
	const char *heading;
	int width;
	bool left; /* of its column; else right */
} columns[] = {
	[PID] = {"PID", 9, true},
	[USER] = {"USER", 8, true},
	[PROGRAM] = {"PROGRAM", PROGRAM_COLUMNS_MIN, true},
	[CONTAINER] = {"CONTAINER", 25, true}, /* not shown where no process is in one */
	[WHAT] = {"WHAT", 8, true},
	[USED] = {"USED", 6, false},
	[RESERVED] = {"RESERVED", 8, false},
	[SHARED] = {"SHARED", 12, false},
	[DEFERRED] = {"DEFERRED", 12, false},
	[SINCE] = {"SINCE", 5, false},
	[WAITED] = {"WAITED", 6, false},
};
_Static_assert(sizeof columns / sizeof columns[0] == COLUMN_COUNT, "all");

/* The columns that go first on a narrow terminal. */
static const enum column least_important[] = {RESERVED, USER, USED, SINCE, CONTAINER, PROGRAM, SHARED};

struct table {
	FILE *to;
	int columns;              /* of the terminal */
	int widths[COLUMN_COUNT]; /* 0: not shown */
};

struct row {
	char cells[COLUMN_COUNT][CELL_CHARS];
	enum style styles[COLUMN_COUNT]; /* STYLE_END: none */
};

/* ---- Columns ---- */

static int width_of(const struct table *table)
{
	int width = -1;

	for (int i = 0; i < COLUMN_COUNT; i++)
		width += table->widths[i] ? table->widths[i] + 1 : 0;
	return width;
}

static struct table lay_out(FILE *to, int terminal_columns, int container_width)
{
	struct table table = {.to = to, .columns = terminal_columns};

	for (int i = 0; i < COLUMN_COUNT; i++)
		table.widths[i] = i == CONTAINER ? container_width : columns[i].width;
	for (size_t i = 0; i < sizeof least_important / sizeof least_important[0]; i++)
		if (width_of(&table) > terminal_columns)
			table.widths[least_important[i]] = 0;
	int room = terminal_columns - width_of(&table);
	if (table.widths[PROGRAM] && room > 0)
		table.widths[PROGRAM] += room < PROGRAM_COLUMNS_MAX - PROGRAM_COLUMNS_MIN
						 ? room
						 : PROGRAM_COLUMNS_MAX - PROGRAM_COLUMNS_MIN;
	return table;
}

static void print_row(const struct table *table, const struct row *row)
{
	int last = COLUMN_COUNT - 1, gap = 0;

	while (last > 0 && (!table->widths[last] || !*row->cells[last]))
		last--;
	for (int i = 0; i <= last; i++) {
		int width = table->widths[i], used = (int)strnlen(row->cells[i], (size_t)width);
		if (!width)
			continue;
		fprintf(table->to, "%*s%s%.*s%s", gap + (columns[i].left ? 0 : width - used), "",
			row->styles[i] == STYLE_END ? "" : style(row->styles[i]), used, row->cells[i],
			row->styles[i] == STYLE_END ? "" : style(STYLE_END));
		gap = 1 + (columns[i].left ? width - used : 0);
	}
	fputc('\n', table->to);
}

static void print_head(const struct table *table)
{
	struct row row = {0};

	for (int i = 0; i < COLUMN_COUNT; i++) {
		snprintf(row.cells[i], CELL_CHARS, "%s", columns[i].heading);
		row.styles[i] = STYLE_DIM;
	}
	print_row(table, &row);
}

/* A text of several words, in as many lines as it needs, in a style that each line begins anew. */
static void print_text(const struct table *table, enum style in, const char *text)
{
	const char *begin = in == STYLE_END ? "" : style(in), *end = in == STYLE_END ? "" : style(STYLE_END);
	int used = 0;

	while (*text) {
		int length = (int)strcspn(text, " ");
		if (used && used + 1 + length > table->columns) {
			fprintf(table->to, "%s\n", end);
			used = 0;
		}
		fprintf(table->to, "%s%.*s", used ? " " : begin, length, text);
		used += (used ? 1 : 0) + length;
		text += length + (text[length] == ' ');
	}
	fprintf(table->to, "%s\n", end);
}

/* ---- Cells ---- */

/* A PID, or what is known instead. */
static void set_who(struct row *row, bool holder, int pid, unsigned int uid, const struct identity *identity)
{
	char user[USER_CHARS], number[16] = "?", container[CONTAINER_TEXT_CHARS];

	if (pid)
		snprintf(number, sizeof number, "%d", pid);
	snprintf(row->cells[PID], CELL_CHARS, "%s%s", holder ? "  " : "", number);
	snprintf(row->cells[USER], CELL_CHARS, "%s", user_text(uid, user));
	snprintf(row->cells[PROGRAM], CELL_CHARS, "%s", *identity->program ? identity->program : "?");
	snprintf(row->cells[CONTAINER], CELL_CHARS, "%s", container_text(&identity->container, container));
	row->styles[PID] = row->styles[USER] = row->styles[PROGRAM] = row->styles[CONTAINER] =
		holder ? STYLE_IMPORTER : STYLE_EXPORTER;
}

/* So many, and so many bytes, if there are bytes to count. */
static void set_amount(struct row *row, enum column column, unsigned long long count, bool has_bytes,
		       unsigned long long bytes)
{
	char amount[AMOUNT_CHARS], number[24];

	snprintf(number, sizeof number, count < 100000 ? "%llu" : "%lluK", count < 100000 ? count : count / 1000);
	snprintf(row->cells[column], CELL_CHARS, "%5s %6s", number, has_bytes ? amount_text(bytes, amount) : "");
	if (column == DEFERRED && count)
		row->styles[column] = STYLE_CAUTION;
}

static void set_age(struct row *row, enum column column, unsigned long long age_ns)
{
	age_text(age_ns, row->cells[column]);
}

/* ---- Rows ---- */

/* On whose behalf, or from where: a machine of the domain. */
static void set_node(struct row *row, unsigned node)
{
	snprintf(row->cells[WHAT], CELL_CHARS, node < 1000 ? "node %u" : "node%u", node);
}

static void print_holder(const struct table *table, const struct holder *holder, const char *has, bool has_bytes)
{
	const cenote_importer *importer = &holder->importer;
	char age[AMOUNT_CHARS];
	struct row row = {0};

	set_who(&row, true, importer->pid, importer->uid, &holder->identity);
	snprintf(row.cells[WHAT], CELL_CHARS, "%s", importer->leaving ? "leaving" : has);
	if (importer->node && !importer->leaving)
		set_node(&row, (unsigned)importer->node);
	set_amount(&row, SHARED, importer->held_block_count, has_bytes, importer->held_bytes);
	set_amount(&row, DEFERRED, importer->deferred_block_count, has_bytes, importer->deferred_bytes);
	set_age(&row, SINCE, age_of(importer->joined_ns));
	if (importer->deferred_block_count) {
		snprintf(row.cells[WAITED], CELL_CHARS, "%s%s", holder->at_least ? ">" : "",
			 age_text(age_of(importer->waiting_since_ns), age));
		row.styles[WAITED] = STYLE_CAUTION;
	}
	print_row(table, &row);
}

static void print_pool(const struct table *table, const struct sharer *sharer, const struct sharer_pool *shared)
{
	const cenote_shared_pool *pool = &shared->pool;
	struct row row = {.styles = {[WHAT] = STYLE_BOLD}};

	set_who(&row, false, sharer->process.pid, sharer->process.uid, &sharer->identity);
	pool_text(pool->id, row.cells[WHAT]);
	amount_text(pool->used_bytes, row.cells[USED]);
	amount_text(pool->reserved_bytes, row.cells[RESERVED]);
	set_amount(&row, SHARED, pool->exported_block_count, true, pool->exported_bytes);
	set_amount(&row, DEFERRED, pool->deferred_block_count, true, pool->deferred_bytes);
	set_age(&row, SINCE, pool->age_ns);
	print_row(table, &row);
	for (size_t i = 0; i < shared->holder_count; i++)
		print_holder(table, &shared->holders[i], "holds", true);
}

static void print_handles(const struct table *table, const struct sharer *sharer, const struct sharer_handles *shared)
{
	const cenote_shared_handles *handles = &shared->handles;
	bool memory = handles->kind == CENOTE_HANDLES_MEMORY;
	struct row row = {.styles = {[WHAT] = STYLE_BOLD}};

	set_who(&row, false, sharer->process.pid, sharer->process.uid, &sharer->identity);
	snprintf(row.cells[WHAT], CELL_CHARS, "%s", memory ? "memory" : "events");
	set_amount(&row, SHARED, handles->shared_count, memory, handles->shared_bytes);
	set_amount(&row, DEFERRED, handles->deferred_count, memory, handles->deferred_bytes);
	set_age(&row, SINCE, handles->age_ns);
	print_row(table, &row);
	for (size_t i = 0; i < shared->holder_count; i++)
		print_holder(table, &shared->holders[i], "opened", memory);
}

static void print_physical(const struct table *table, const struct physical *physical)
{
	struct row row = {.styles = {[WHAT] = STYLE_BOLD}};

	set_who(&row, false, 0, physical->uid, &(struct identity){.program = "-"});
	snprintf(row.cells[PID], CELL_CHARS, "-");
	snprintf(row.cells[WHAT], CELL_CHARS, "physical");
	set_amount(&row, SHARED, physical->count, true, physical->bytes);
	print_row(table, &row);
	for (size_t i = 0; i < physical->holder_count; i++) {
		const struct physical_holder *holder = &physical->holders[i];
		row = (struct row){0};
		set_who(&row, true, holder->pid, holder->uid, &holder->identity);
		snprintf(row.cells[WHAT], CELL_CHARS, "%s", holder->mapped ? "maps" : "has");
		set_amount(&row, SHARED, physical->count, true, physical->bytes);
		print_row(table, &row);
	}
	for (size_t i = 0; i < physical->node_count; i++) {
		row = (struct row){0};
		set_who(&row, true, 0, 0, &(struct identity){.program = "-"});
		snprintf(row.cells[PID], CELL_CHARS, "  -"); /* its processes are of another machine */
		snprintf(row.cells[USER], CELL_CHARS, "-");
		set_node(&row, physical->nodes[i].node);
		set_amount(&row, SHARED, physical->count, true, physical->bytes);
		print_row(table, &row);
	}
}

static void print_private(const struct table *table, const struct private_memory *memory)
{
	struct row row = {.styles = {[WHAT] = STYLE_BOLD}};

	set_who(&row, false, memory->pid, memory->uid, &memory->identity);
	snprintf(row.cells[WHAT], CELL_CHARS, "private");
	amount_text(memory->bytes, row.cells[USED]);
	print_row(table, &row);
}

/* A process that has nothing to show. */
static void print_nothing(const struct table *table, const struct sharer *sharer)
{
	static const char silent[] = "does not answer", why[] = ": stopped, hung, or of another version";
	bool room = width_of(table) - table->widths[PID] - table->widths[USER] - table->widths[PROGRAM] -
			    table->widths[CONTAINER] - 4 >=
		    (int)(sizeof silent + sizeof why - 2);
	struct row row = {0};

	set_who(&row, false, sharer->process.pid, sharer->process.uid, &sharer->identity);
	fputs(style(row.styles[PID]), table->to);
	for (int i = PID; i <= CONTAINER; i++)
		if (table->widths[i])
			fprintf(table->to, "%-*.*s ", table->widths[i], table->widths[i], row.cells[i]);
	fprintf(table->to, "%s%s%s%s%s\n", style(STYLE_END), style(STYLE_DIM),
		sharer->process.answers ? "nothing now" : silent, !sharer->process.answers && room ? why : "",
		style(STYLE_END));
}

/* What stands above is what the process wrote before it stopped answering. */
static void print_when(const struct table *table, const struct sharer *sharer)
{
	char age[AMOUNT_CHARS], text[TEXT_CHARS];

	snprintf(text, sizeof text, "%d does not answer: this is how it was %s ago", sharer->process.pid,
		 age_text(age_of(sharer->process.written_ns), age));
	if (!sharer->process.pid)
		snprintf(text, sizeof text, "it does not answer: this is how it was %s ago", age);
	print_text(table, STYLE_DIM, text);
}

/* What a process has from others, by its own word; or only what it has from other machines. Were there rows? */
static bool print_imports(const struct table *table, const struct sharer *sharer, bool all)
{
	bool printed = false;

	for (size_t i = 0; i < sharer->import_count; i++) {
		const cenote_import *import = &sharer->imports[i];
		if (!all && !import->node)
			continue;
		printed = true;
		struct row row = {.styles = {[WHAT] = STYLE_BOLD}};
		const char *what = import->kind ? "opened" : "imported";
		set_who(&row, false, sharer->process.pid, sharer->process.uid, &sharer->identity);
		snprintf(row.cells[WHAT], CELL_CHARS, "%s", import->orphaned ? "orphaned" : what);
		if (import->node)
			set_node(&row, import->node);
		set_amount(&row, SHARED, import->held_count, import->kind != CENOTE_HANDLES_EVENTS, import->held_bytes);
		set_age(&row, SINCE, import->age_ns);
		print_row(table, &row);
	}
	return printed;
}

static void print_importer(const struct table *table, const struct sharer *importer, bool all)
{
	if (print_imports(table, importer, all) && !importer->process.answers)
		print_when(table, importer);
}

/*
 * The owner of what a process has shows it, too; where it does not, or the process is stopped, this does. An owner on
 * another machine shows nothing here.
 */
static bool is_to_be_shown(const struct survey *survey, const struct sharer *importer)
{
	return !importer->process.answers || !survey_has_holder(survey, importer->process.pid);
}

static void print_sharer(const struct table *table, const struct sharer *sharer)
{
	for (size_t i = 0; i < sharer->pool_count; i++)
		print_pool(table, sharer, &sharer->pools[i]);
	for (size_t i = 0; i < sharer->by_handle_count; i++)
		print_handles(table, sharer, &sharer->by_handle[i]);
	print_imports(table, sharer, false);
	if (!sharer->pool_count && !sharer->by_handle_count)
		print_nothing(table, sharer);
	else if (!sharer->process.answers)
		print_when(table, sharer);
}

/* ---- What is said below ---- */

static void print_sum(const struct table *table, const struct survey *survey)
{
	unsigned long long pools = 0, reserved = 0, deferred = 0;
	char reserved_text[AMOUNT_CHARS], deferred_text[AMOUNT_CHARS], text[TEXT_CHARS];

	for (size_t i = 0; i < survey->sharer_count; i++) {
		const struct sharer *sharer = &survey->sharers[i];
		pools += sharer->pool_count;
		for (size_t j = 0; j < sharer->pool_count; j++) {
			reserved += sharer->pools[j].pool.reserved_bytes;
			deferred += sharer->pools[j].pool.deferred_bytes;
		}
		for (size_t j = 0; j < sharer->by_handle_count; j++)
			deferred += sharer->by_handle[j].handles.deferred_bytes;
	}
	if (!survey->sharer_count) {
		print_text(table, STYLE_END,
			   survey->physical_count || survey->importer_count
				   ? "no process of this user shares pools, or gives out handles"
				   : "no process of this user shares anything");
		return;
	}
	int used = snprintf(text, sizeof text, "%zu %s, %llu shared %s, %s reserved", survey->sharer_count,
			    survey->sharer_count == 1 ? "process" : "processes", pools, pools == 1 ? "pool" : "pools",
			    amount_text(reserved, reserved_text));
	if (deferred)
		snprintf(text + used, sizeof text - (size_t)used, ", %s freed and held by others",
			 amount_text(deferred, deferred_text));
	print_text(table, STYLE_END, text);
}

/* What is not known about the rows above. */
static void print_unknown(const struct table *table, const struct survey *survey)
{
	bool on_gpu = false;

	for (size_t i = 0; i < survey->sharer_count; i++)
		on_gpu |= survey->sharers[i].process.on_gpu;
	if (survey->physical_count)
		print_text(table, STYLE_DIM,
			   "physical: memory of cuMemCreate, found in /proc. Not known: which process "
			   "created it, since when the others have it, and which processes out of sight have it.");
	if (survey->physical_known && !survey->nodes_known)
		print_text(table, STYLE_DIM,
			   "Not known: for which nodes cenote-imexd holds memory of cuMemCreate. It does not answer.");
	if (!survey->physical_known)
		print_text(table, STYLE_DIM,
			   "Not known: which processes have memory of cuMemCreate, or memory that is not shared. "
			   "/proc could not be read.");
	if (on_gpu)
		print_text(
			table, STYLE_DIM,
			"On a GPU events, legacy memory and memory of cuMemCreate are the driver's. Not known: which "
			"processes have them open.");
	if (survey->other_users)
		print_text(table, STYLE_DIM,
			   survey->other_users == 1
				   ? "There may be more: another user has a runtime directory. Root sees all."
				   : "There may be more: other users have runtime directories. Root sees all.");
}

static void widen(const struct identity *identity, void *data)
{
	char text[CONTAINER_TEXT_CHARS];
	int length = (int)strlen(container_text(&identity->container, text)), *width = data;

	if (length > *width)
		*width = length;
}

/* How much room the longest name of a container takes; 0: no process is in one. */
static int container_width(const struct survey *survey)
{
	int width = 0, least = (int)strlen(columns[CONTAINER].heading), most = columns[CONTAINER].width;

	survey_visit(survey, widen, &width);
	if (!width)
		return 0;
	if (width < least)
		return least;
	return width < most ? width : most;
}

void survey_print_table(FILE *to, const struct survey *survey, int terminal_columns)
{
	struct table table = lay_out(to, terminal_columns, container_width(survey));

	if (survey->sharer_count || survey->importer_count || survey->physical_count || survey->private_count)
		print_head(&table);
	for (size_t i = 0; i < survey->sharer_count; i++)
		print_sharer(&table, &survey->sharers[i]);
	for (size_t i = 0; i < survey->importer_count; i++)
		print_importer(&table, &survey->importers[i], is_to_be_shown(survey, &survey->importers[i]));
	for (size_t i = 0; i < survey->physical_count; i++)
		print_physical(&table, &survey->physicals[i]);
	for (size_t i = 0; i < survey->private_count; i++)
		print_private(&table, &survey->privates[i]);
	if (!*survey->error)
		print_sum(&table, survey);
	print_unknown(&table, survey);
}
