/* Owns: the preset inventories, in the form that a user's file has (docs/devices.md). */
#include <string.h>

#include "device/inventory.h"

static const struct {
  const char *name, *text;
} presets[] = {
    {"mk2-16",
     "{\"name\": \"mk2-16\", \"partition\": \"p1\",\n"
     " \"defaults\": {\"architecture\": \"ipu2\", \"board\": \"M2000\", \"clock_mhz\": 1330, \"firmware\": \"2.4.4\",\n"
     "              \"software\": \"2.5.0\", \"server_version\": \"1.9.0\"},\n"
     " \"order\": [4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11],\n"
     " \"ipus\": [\n"
     "  {\"host\": \"10.1.5.10\", \"serial\": \"0001.0002.8203321\", \"number\": 3},\n"
     "  {\"host\": \"10.1.5.10\", \"serial\": \"0001.0002.8203321\", \"number\": 2},\n"
     "  {\"host\": \"10.1.5.10\", \"serial\": \"0001.0001.8203321\", \"number\": 1},\n"
     "  {\"host\": \"10.1.5.10\", \"serial\": \"0001.0001.8203321\", \"number\": 0},\n"
     "  {\"host\": \"10.1.5.11\", \"serial\": \"0002.0002.8203321\", \"number\": 3},\n"
     "  {\"host\": \"10.1.5.11\", \"serial\": \"0002.0002.8203321\", \"number\": 2},\n"
     "  {\"host\": \"10.1.5.11\", \"serial\": \"0002.0001.8203321\", \"number\": 1},\n"
     "  {\"host\": \"10.1.5.11\", \"serial\": \"0002.0001.8203321\", \"number\": 0},\n"
     "  {\"host\": \"10.1.5.12\", \"serial\": \"0003.0002.8203321\", \"number\": 3},\n"
     "  {\"host\": \"10.1.5.12\", \"serial\": \"0003.0002.8203321\", \"number\": 2},\n"
     "  {\"host\": \"10.1.5.12\", \"serial\": \"0003.0001.8203321\", \"number\": 1},\n"
     "  {\"host\": \"10.1.5.12\", \"serial\": \"0003.0001.8203321\", \"number\": 0},\n"
     "  {\"host\": \"10.1.5.13\", \"serial\": \"0004.0002.8203321\", \"number\": 3},\n"
     "  {\"host\": \"10.1.5.13\", \"serial\": \"0004.0002.8203321\", \"number\": 2},\n"
     "  {\"host\": \"10.1.5.13\", \"serial\": \"0004.0001.8203321\", \"number\": 1},\n"
     "  {\"host\": \"10.1.5.13\", \"serial\": \"0004.0001.8203321\", \"number\": 0}]}\n"},
    {"m2000-2",
     "{\"name\": \"m2000-2\", \"partition\": \"p_ipuof\",\n"
     " \"defaults\": {\"architecture\": \"ipu2\", \"board\": \"M2000\", \"clock_mhz\": 1330, \"firmware\": \"2.1.3\",\n"
     "              \"server_version\": \"1.5.4\"},\n"
     " \"ipus\": [\n"
     "  {\"host\": \"10.44.44.253\", \"serial\": \"0001.0002.8204221\", \"number\": 3},\n"
     "  {\"host\": \"10.44.44.253\", \"serial\": \"0001.0002.8204221\", \"number\": 2},\n"
     "  {\"host\": \"10.44.44.253\", \"serial\": \"0001.0001.8204221\", \"number\": 1},\n"
     "  {\"host\": \"10.44.44.253\", \"serial\": \"0001.0001.8204221\", \"number\": 0},\n"
     "  {\"host\": \"10.44.44.244\", \"serial\": \"0055.0002.8204121\", \"number\": 3},\n"
     "  {\"host\": \"10.44.44.244\", \"serial\": \"0055.0002.8204121\", \"number\": 2},\n"
     "  {\"host\": \"10.44.44.244\", \"serial\": \"0055.0001.8204121\", \"number\": 1},\n"
     "  {\"host\": \"10.44.44.244\", \"serial\": \"0055.0001.8204121\", \"number\": 0}]}\n"},
    {"c2-16",
     "{\"name\": \"c2-16\", \"partition\": \"\",\n"
     " \"defaults\": {\"architecture\": \"ipu1\", \"board\": \"C2\", \"clock_mhz\": 1600, \"firmware\": \"1.4.14\"},\n"
     " \"order\": [5, 7, 4, 6, 3, 1, 2, 0, 13, 15, 12, 14, 9, 11, 10, 8],\n"
     " \"ipus\": [\n"
     "  {\"pci\": \"0000:1a:00.0\", \"serial\": \"0022.0001.8201021\", \"number\": 0, \"numa_node\": 0},\n"
     "  {\"pci\": \"0000:1b:00.0\", \"serial\": \"0022.0001.8201021\", \"number\": 1, \"numa_node\": 0},\n"
     "  {\"pci\": \"0000:23:00.0\", \"serial\": \"0022.0002.8201021\", \"number\": 0, \"numa_node\": 0},\n"
     "  {\"pci\": \"0000:24:00.0\", \"serial\": \"0022.0002.8201021\", \"number\": 1, \"numa_node\": 0},\n"
     "  {\"pci\": \"0000:3d:00.0\", \"serial\": \"0022.0003.8201021\", \"number\": 0, \"numa_node\": 0},\n"
     "  {\"pci\": \"0000:3e:00.0\", \"serial\": \"0022.0003.8201021\", \"number\": 1, \"numa_node\": 0},\n"
     "  {\"pci\": \"0000:43:00.0\", \"serial\": \"0022.0004.8201021\", \"number\": 0, \"numa_node\": 0},\n"
     "  {\"pci\": \"0000:44:00.0\", \"serial\": \"0022.0004.8201021\", \"number\": 1, \"numa_node\": 0},\n"
     "  {\"pci\": \"0000:8b:00.0\", \"serial\": \"0022.0005.8201021\", \"number\": 0, \"numa_node\": 1},\n"
     "  {\"pci\": \"0000:8c:00.0\", \"serial\": \"0022.0005.8201021\", \"number\": 1, \"numa_node\": 1},\n"
     "  {\"pci\": \"0000:8e:00.0\", \"serial\": \"0022.0006.8201021\", \"number\": 0, \"numa_node\": 1},\n"
     "  {\"pci\": \"0000:8f:00.0\", \"serial\": \"0022.0006.8201021\", \"number\": 1, \"numa_node\": 1},\n"
     "  {\"pci\": \"0000:b8:00.0\", \"serial\": \"0022.0007.8201021\", \"number\": 0, \"numa_node\": 1},\n"
     "  {\"pci\": \"0000:b9:00.0\", \"serial\": \"0022.0007.8201021\", \"number\": 1, \"numa_node\": 1},\n"
     "  {\"pci\": \"0000:ba:00.0\", \"serial\": \"0022.0008.8201021\", \"number\": 0, \"numa_node\": 1},\n"
     "  {\"pci\": \"0000:bb:00.0\", \"serial\": \"0022.0008.8201021\", \"number\": 1, \"numa_node\": 1}]}\n"},
};

const char *trm_inventory_preset(size_t i) {
  return i < sizeof presets / sizeof *presets ? presets[i].name : NULL;
}

const char *trm_preset_text(const char *name) {
  for (size_t i = 0; i < sizeof presets / sizeof *presets; ++i) {
    if (strcmp(presets[i].name, name) == 0) return presets[i].text;
  }
  return NULL;
}
