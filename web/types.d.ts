// Types that most files name.

type App = import("./src/base/app.js").App;
type Column = import("./src/base/table.js").Column;
type Columns = import("./src/data/trace.js").Columns;
type Plot = import("./src/charts/plot.js").Plot;
type Profile = import("./src/data/profile.js").Profile;
type Programs = import("./src/views/programs.js").Programs;
type Texts = import("./src/data/texts.js").Texts;
type Timeline = import("./src/data/timeline.js").Timeline;
type View = import("./src/charts/plot.js").View;
type ViewModule = import("./src/base/app.js").ViewModule;
