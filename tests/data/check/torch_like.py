"""A script of another framework: nothing of it is TensorFlow's."""
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(2, 1).cuda()
optimizer = torch.optim.Adam(model.parameters(), eps=1e-8)
loader = DataLoader([torch.zeros(2)], batch_size=2, shuffle=True)
for epoch in range(2):
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch.to("cuda:0")).sum().double()
        loss.backward()
        optimizer.step()
        print(loss.item(), loss.detach().cpu().numpy())
